"""Whether a backtracking matcher such as `re` takes more than linear time for a pattern, on some text.

It does if two different ways of reading some text lead on from the same place: it tries both, each time that
the text is repeated. `degree` looks for such ways in the pattern's automaton (Weber and Seidl 1991 call the
criteria EDA and IDA). Counts with an upper bound are not loops here: they take a bounded number of times as
long. What a lookaround reads counts, and the character that follows one of a single character is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from engine_sampler.grammar.regex.automaton import Alphabet
from engine_sampler.grammar.regex.tree import (
    ANY,
    Choice,
    Lookaround,
    Node,
    Repeat,
    Sequence,
    Set,
    parse,
    repeat,
    sequence,
)

LINEAR, POLYNOMIAL, EXPONENTIAL = "linear", "polynomial", "exponential"

Step = tuple[int, int]
"""A character's atom, and the state after it."""


def degree(pattern: str | bytes, flags: int = 0, *, floating: bool = False, whole: bool = False) -> str:
    """How the time of matching grows with the length of the text at worst.

    floating   whether the match may begin anywhere, as in `re.search`
    whole      whether the text must end where the match does, as in `re.fullmatch`
    """
    text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    tree = parse(text, flags & ~int(re.DEBUG), False, {})
    if floating:
        tree = sequence((repeat(ANY, 0, None, True), tree))
    automaton = _Automaton(tree, whole)
    if automaton.has_exponential_ways():
        return EXPONENTIAL
    return POLYNOMIAL if automaton.has_polynomial_ways() else LINEAR


class _Automaton:
    """States with steps over atoms; two equal steps are two ways."""

    def __init__(self, tree: Node, whole: bool) -> None:
        self.alphabet = Alphabet(_sets(tree))
        self.everything = frozenset(range(self.alphabet.size))
        self.empty: list[list[tuple[frozenset[int], int]]] = []
        """The ways on from each place that read nothing, and the atoms that may follow them."""
        self.reads: list[tuple[frozenset[int], int] | None] = []
        begin, end = self.place(), self.place()
        self.build(tree, begin, end)
        self.end = None if whole else end
        self.steps = self._steps(begin)
        self._components = _components(
            {state: {to for _, to in steps} for state, steps in self.steps.items()}
        )

    # --- places ----------------------------------------------------------------------------------

    def place(self) -> int:
        self.empty.append([])
        self.reads.append(None)
        return len(self.empty) - 1

    def join(self, begin: int, end: int, atoms: frozenset[int] | None = None) -> None:
        self.empty[begin].append((self.everything if atoms is None else atoms, end))

    def build(self, node: Node, begin: int, end: int) -> None:
        """Add the places between two for a part of the pattern."""
        if isinstance(node, Set):
            at = self.place()
            self.join(begin, at)
            self.reads[at] = self.alphabet.atoms(node.ranges), end
        elif isinstance(node, Sequence):
            for item in node.items:
                after = self.place()
                self.build(item, begin, after)
                begin = after
            self.join(begin, end)
        elif isinstance(node, Choice):
            for item in node.items:
                self.build(item, begin, end)
        elif isinstance(node, Repeat):
            self._build_repeat(node, begin, end)
        elif isinstance(node, Lookaround):
            self._build_lookaround(node, begin, end)

    def _build_repeat(self, node: Repeat, begin: int, end: int) -> None:
        if node.low == 0:
            self.join(begin, end)
        first, last = self.place(), self.place()
        self.join(begin, first)
        self.build(node.item, first, last)
        if node.high is None:
            self.join(last, first)
        elif node.high > 1:
            self.build(node.item, last, end)
        if node.high is None or node.low < 2:
            self.join(last, end)

    def _build_lookaround(self, node: Lookaround, begin: int, end: int) -> None:
        atoms = self.everything
        if node.ahead:
            self.build(node.item, begin, self.place())
            if isinstance(node.item, Set):
                inside = self.alphabet.atoms(node.item.ranges)
                atoms = atoms - inside if node.negative else inside
        self.join(begin, end, atoms)

    # --- steps -----------------------------------------------------------------------------------

    def _steps(self, begin: int) -> dict[int, list[Step]]:
        """The steps from the first place, and from each behind a character."""
        steps: dict[int, list[Step]] = {}
        waiting = [begin]
        for state in waiting:
            if state not in steps:
                steps[state] = [
                    (atom, after) for atoms, after in self._ways(state, frozenset()) for atom in sorted(atoms)
                ]
                waiting += {after for _, after in steps[state]}
        return steps

    def _ways(self, place: int, passed: frozenset[int]) -> Iterator[tuple[frozenset[int], int]]:
        """The characters that may be read next, once for each way to them."""
        if (reading := self.reads[place]) is not None:
            yield reading
        for atoms, to in self.empty[place]:
            if to not in passed:
                for others, after in self._ways(to, passed | {place}):
                    if both := atoms & others:
                        yield both, after

    # --- ways ------------------------------------------------------------------------------------

    def has_exponential_ways(self) -> bool:
        """Whether two ways lead from some state back to it with the same text."""
        inside = self._inside
        for one in self._loops():
            if any(len(set(steps)) < len(steps) for steps in map(inside, one)):
                return True
            pairs = {
                (a, b): {(to, other) for atom, to in inside(a) for atom_, other in inside(b) if atom == atom_}
                for a, b in product(one, repeat=2)
            }
            component = _components(pairs)
            if any(a != b and component[a, b] == component[c, c] for a, b in pairs for c in (a, b)):
                return True
        return False

    def has_polynomial_ways(self) -> bool:
        """Whether a text leads from a state back to it, from it to another one, and from that back to it."""
        loops = self._loops()
        return any(self._may_part(p, q) for one in loops for two in loops for p in one for q in two if p != q)

    def _may_part(self, p: int, q: int) -> bool:
        seen = {(p, p, q)}
        waiting = [(p, p, q)]
        for a, b, c in waiting:
            for atom, to_c in self._inside(c):
                middle = [to for atom_, to in self.steps[b] if atom == atom_]
                first = [to for atom_, to in self._inside(a) if atom == atom_]
                for after in product(first, middle, (to_c,)):
                    if after == (p, q, q):
                        return True
                    if after not in seen:
                        seen.add(after)
                        waiting.append(after)
        return False

    def _inside(self, state: int) -> list[Step]:
        """The steps that do not leave the loop of a state."""
        own = self._components[state]
        return [(atom, to) for atom, to in self.steps[state] if self._components[to] == own]

    def _loops(self) -> list[list[int]]:
        """The states that lead back to themselves, those together that lead to each other; none that the
        match can end in, because then it does as soon as it cannot go on."""
        found: dict[int, list[int]] = {}
        for state in self.steps:
            if self._inside(state):
                found.setdefault(self._components[state], []).append(state)
        return [loop for loop in found.values() if not any(map(self._may_end, loop))]

    def _may_end(self, place: int) -> bool:
        """Whether the match may end here, whatever follows."""
        seen = [place]
        for one in seen:
            seen += (to for atoms, to in self.empty[one] if atoms == self.everything and to not in seen)
        return self.end in seen


def _sets(node: Node) -> Iterator[object]:
    if isinstance(node, Set):
        yield node.ranges
    for item in getattr(node, "items", (getattr(node, "item", None),)):
        if item is not None:
            yield from _sets(item)


def _components(graph: dict) -> dict:
    """A number for each node, the same for those that lead to each other."""
    reached = {node: _reached(graph, node) for node in graph}
    names: dict = {}
    return {
        node: names.setdefault(
            frozenset(x for x in reached[node] | {node} if x == node or node in reached[x]), len(names)
        )
        for node in graph
    }


def _reached(graph: dict, start: object) -> set:
    seen: set = set()
    waiting = [start]
    for node in waiting:
        new = graph[node] - seen
        seen |= new
        waiting += new
    return seen
