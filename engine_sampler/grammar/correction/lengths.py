"""What a text still needs at least: the guide of the search for corrections.

The bounds hold for every continuation, and a byte lowers them by at most its own cost; so a search that
follows them finds what is best (A*: Hart, Nilsson and Raphael 1968). What terminals and rules need is
found by Knuth's generalisation of Dijkstra's algorithm (1977). Look-aheads are left out of it, and what
registers demand is taken one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..derivatives.expressions import Expressions, children
from ..engines.reference.rows import FINISHED, NO_ROW
from ..engines.reference.threads import BETWEEN_TERMINALS, EarleyConfigurations
from ..program.expression import AUTOMATON, BOTH, CLASS, CONCAT, GUARD, LITERAL, REPEAT, UNION
from .demands import NEVER, cheapest, rule_lengths

RuleAt = tuple[int, int]
"""A rule, and the row where it began."""


class Lengths:
    """What the configurations of `threads` still need.

    free  a mask of the bytes that cost nothing; all others cost 1
    """

    def __init__(self, threads: EarleyConfigurations, free: int = 0) -> None:
        self._threads = threads
        self._rows = threads.rows
        self._automata = threads.rows.automata
        self._of_expression = ExpressionLengths(threads.scans.expressions, free)
        terminals = [NEVER if number is None else self._of_expression(number) for number in threads.terminals]
        self._of_place = rule_lengths(self._automata, terminals)
        self._of_row: dict[int, int] = {}
        self._behind: dict[RuleAt, int] = {(self._automata.goal, NO_ROW): 0}
        self._of_configuration: dict[int, int] = {}

    def __call__(self, configuration: int) -> int:
        """The cost of the cheapest way to the end from a configuration, or less; NEVER without one."""
        found = self._of_configuration.get(configuration)
        if found is None:
            found = NEVER
            for row, terminal, ignored, scan in self._threads.threads[configuration]:
                behind: int | None = row
                rest = 0
                if terminal != BETWEEN_TERMINALS:
                    rest = self._of_expression(self._threads.scans.pairs[scan][0])
                    behind = row if ignored else self._rows.advance(row, terminal)
                if behind is not None and rest < found:
                    found = min(found, rest + self._finish(behind))
            self._of_configuration[configuration] = found
        return found

    def _finish(self, row: int) -> int:
        """What is needed from a row to the end of the text."""
        found = self._of_row.get(row)
        if found is None:
            found = NEVER
            for item in self._rows.rows[row].items:
                if item == FINISHED:
                    found = 0
                    break
                needed = self._of_place(item[0])
                if needed < found:
                    found = min(found, needed + self._leave((self._automata.rule_of(item[0]), item[1])))
            self._of_row[row] = found
        return found

    def _leave(self, wanted: RuleAt) -> int:
        """What is needed behind the end of a rule."""
        waiting = [wanted]
        while waiting:
            node = waiting[-1]
            if node in self._behind:
                waiting.pop()
                continue
            inner, ways = self._within(node)
            missing = [to for _, to, _ in ways if to not in inner and to not in self._behind]
            if missing:
                waiting += missing
            else:
                self._settle(inner, ways)
        return self._behind[wanted]

    def _within(self, node: RuleAt) -> tuple[set[RuleAt], list[tuple[RuleAt, RuleAt, int]]]:
        """The rules of the same row that may end where `node` does, and the ways on: from, to, cost."""
        inner, ways, waiting = {node}, [], [node]
        while waiting:
            at = waiting.pop()
            for place, origin in self._callers(at):
                to = self._automata.rule_of(place), origin
                ways.append((at, to, self._of_place(place)))
                if origin == node[1] and to not in inner and to not in self._behind:
                    inner.add(to)
                    waiting.append(to)
        return inner, ways

    def _callers(self, node: RuleAt) -> Iterator[tuple[int, int]]:
        """The places, with origins, behind a rule that began in a row."""
        rule, row = node
        items, beginning, _, _ = self._rows.rows[row]
        for place, origin in (*items, *((place, row) for place in beginning)):
            if place >= 0:
                for target in self._automata.transitions(place).targets.get(rule, ()):
                    yield target, origin

    def _settle(self, inner: set[RuleAt], ways: list[tuple[RuleAt, RuleAt, int]]) -> None:
        backwards: dict[RuleAt, list[tuple[RuleAt, int]]] = {}
        ends = []
        for at, to, cost in ways:
            if to in inner:
                backwards.setdefault(to, []).append((at, cost))
            else:
                ends.append((at, cost + self._behind[to]))
        found = cheapest(backwards, ends)
        self._behind.update((node, found.get(node, NEVER)) for node in inner)


class ExpressionLengths:
    """What expressions match at least, with the same costs."""

    def __init__(self, expressions: Expressions, free: int) -> None:
        self._expressions = expressions
        self._free = free
        self._known: dict[int, int] = {}
        self._automata: dict[int, dict[int, int]] = {}

    def __call__(self, number: int) -> int:
        """The cost of the cheapest text that an expression matches, or less."""
        waiting = [number]
        while waiting:
            at = waiting[-1]
            missing = [part for part in children(self._expressions.nodes[at]) if part not in self._known]
            if missing and at not in self._known:
                waiting += missing
            else:
                waiting.pop()
                self._known[at] = self._cost(at)
        return self._known[number]

    def _cost(self, number: int) -> int:
        node = self._expressions.nodes[number]
        kind = node[0]
        if kind == LITERAL:
            return sum(not self._free >> byte & 1 for byte in node[1])
        if kind == CLASS:
            return int(not node[1] & self._free)
        if kind == CONCAT:
            return min(NEVER, self._known[node[1]] + self._known[node[2]])
        if kind == UNION:
            return min((self._known[part] for part in node[1]), default=NEVER)
        if kind == BOTH:
            return max(self._known[part] for part in node[1])
        if kind == REPEAT:
            return min(NEVER, self._known[node[1]] * node[2])
        if kind == GUARD:
            return self._known[node[1]]
        if kind == AUTOMATON:
            return self._of_automaton(node[1]).get(node[2], NEVER)
        return int(not self._expressions.endings[number] and not self._free)  # a complement

    def _of_automaton(self, automaton: int) -> dict[int, int]:
        found = self._automata.get(automaton)
        if found is None:
            ways: dict[int, list[tuple[int, int]]] = {}
            ends = []
            for state, (accepts, _, targets) in enumerate(self._expressions.automata[automaton]):
                for target in set(targets) - {-1}:
                    costs = any(self._free >> byte & 1 for byte in range(256) if targets[byte] == target)
                    ways.setdefault(target, []).append((state, int(not costs)))
                if accepts:
                    ends.append((state, 0))
            found = self._automata[automaton] = cheapest(ways, ends)
        return found
