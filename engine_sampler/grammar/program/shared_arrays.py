"""Which arrays whose items must differ may be read as other arrays too, by another rule.

`UniqueItemsMatcher` refuses a repeated item whatever else the text may be read as. So every rule that reads
the bracket of such an array at the same place must forbid repetitions too. Two rules may read the same text
if their automata can reach a pair of states over terminals that match equal texts; registers are not
considered, so that some pairs are found that no text reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Protocol, TypeAlias

from ..work import spend
from .byte_sets import first_bytes, last_bytes
from .expression import ANYTHING, LITERAL, Expression, both, concat, literal, nullable, union
from .reaching import nodes_reaching
from .rules import ACCEPT, PlainEdge, Rules

_Pair: TypeAlias = "tuple[int, int, int, int]"
"""A rule and its state, and another rule, or the same one, and its state."""

_ARRAY = concat(literal(b"["), ANYTHING)
_CONTAINER = concat(union(literal(b"["), literal(b"{")), ANYTHING)
"""What begins as an array, and as an array or an object does."""


class Matching(Protocol):
    """What an expression matches."""

    def matches(self, data: bytes) -> bool:
        """Whether it matches `data`."""

    def is_empty(self) -> bool:
        """Whether it matches nothing at all."""


class SharedArrays:
    """The arrays of some rules that other rules may read.

    rules     all of them, of texts in JSON
    matching  what can tell what an expression matches
    """

    def __init__(self, rules: Rules, matching: Callable[[Expression], Matching]) -> None:
        self._rules = rules
        self._matching = matching
        self._matchers: dict[int, Matching] = {}  # of terminals
        self._known_ends: dict[int, tuple[int, int]] = {}  # of expressions of terminals, by their identity
        self._overlapping: dict[tuple[int, int], bool] = {}
        self._edges: dict[tuple[int, int], list[PlainEdge]] = {}

    def found(self, marked: Collection[int], alike: Collection[int]) -> set[int]:
        """Those of the rules `marked` whose arrays a rule that is neither among them nor in `alike` reads."""
        targets = [
            (rule, symbol)
            for rule in range(-1, -1 - len(self._rules.rule_names), -1)
            for state in self._rules.states_of(rule)
            for symbol, _, _ in state
            if symbol < 0 and symbol != ACCEPT
        ]
        holders = nodes_reaching(targets, marked)
        found: set[int] = set()
        waiting: list[_Pair] = [(rule, 0, rule, 0) for rule in sorted(holders)]
        seen = set(waiting)
        while waiting:
            one, state, other, other_state = waiting.pop()
            for rule, another in ((one, other), (other, one)):
                if rule in marked and another not in marked and another not in alike:
                    found |= {rule} if self._opens_array(another) else set()
            for pair in self._following(one, state, other, other_state):
                spend(4)
                if pair not in seen and not holders.isdisjoint((pair[0], pair[2])):
                    seen.add(pair)
                    waiting.append(pair)
                if pair[0] in holders and pair[2] >= 0 and self._may_match(pair[2], -2, _CONTAINER):
                    found.update(marked)  # such as a plain text that may look like JSON
        return found

    def _following(self, one: int, state: int, other: int, other_state: int) -> Iterator[_Pair]:
        """The pairs that one symbol of each leads to; a terminal stands for itself, and leads to none."""
        if one >= 0 or other >= 0:
            return
        texts: dict[int, list[int]] = {}
        rest: list[PlainEdge] = []
        others = self._of(other, other_state)
        for edge in others:
            if edge[0] >= 0 and self._is_fixed(edge[0]):
                texts.setdefault(edge[0], []).append(edge[1])
            else:
                rest.append(edge)
        for symbol, target, _ in self._of(one, state):
            if symbol >= 0 and self._is_fixed(symbol):
                for other_target in texts.get(symbol, ()):
                    yield one, target, other, other_target
            elif symbol >= 0:
                for text, other_targets in texts.items():
                    if self._overlap(symbol, text):
                        yield from ((one, target, other, to) for to in other_targets)
            for other_symbol, other_target, _ in rest if symbol >= 0 else others:
                if symbol < 0 and other_symbol < 0:
                    yield symbol, 0, other_symbol, 0
                    yield one, target, other, other_target
                elif symbol < 0:
                    yield symbol, 0, other_symbol, 0
                elif other_symbol < 0:
                    yield other_symbol, 0, symbol, 0
                elif self._overlap(symbol, other_symbol):
                    yield one, target, other, other_target

    def _of(self, rule: int, state: int) -> list[PlainEdge]:
        """The edges of a state that read something; its choices instead of a rule that is a mere choice."""
        found = self._edges.get((rule, state))
        if found is None:
            found = []
            waiting = list(self._rules.states_of(rule)[state])
            chosen: set[tuple[int, int]] = set()
            while waiting:
                symbol, target, operations = waiting.pop()
                if symbol == ACCEPT or (symbol, target) in chosen:
                    continue
                chosen.add((symbol, target))
                if symbol < 0 and self._is_choice(symbol):
                    waiting += [(one, target, ()) for one, _, _ in self._rules.states_of(symbol)[0]]
                else:
                    found.append((symbol, target, operations))
            spend(len(chosen))
            self._edges[rule, state] = found
        return found

    def _is_choice(self, rule: int) -> bool:
        states = self._rules.states_of(rule)
        return (
            len(states) == 2
            and [edge[0] for edge in states[1]] == [ACCEPT]
            and all(target == 1 for _, target, _ in states[0])
        )

    def _opens_array(self, rule: int) -> bool:
        """Whether a rule may read a bracket first."""
        edges = self._of(rule, 0) if rule < 0 else ()
        return any(symbol >= 0 and self._may_match(symbol, -1, _ARRAY) for symbol, _, _ in edges)

    def _overlap(self, one: int, other: int) -> bool:
        """Whether two terminals may match the same text."""
        if self._is_fixed(one) or (one > other and not self._is_fixed(other)):
            one, other = other, one
        expression = self._rules.expressions[other]
        return one == other or (expression is not None and self._may_match(one, other, expression))

    def _may_match(self, terminal: int, other: int, expression: Expression) -> bool:
        """Whether a terminal may match a text of an expression, which has the number `other`."""
        found = self._overlapping.get((terminal, other))
        if found is None:
            own = self._rules.expressions[terminal]
            if own is None or not self._may_look_alike(own, expression):
                found = False
            elif expression[0] == LITERAL:
                found = self._matcher(terminal, own).matches(expression[1])
            else:
                found = not self._matching(both(own, expression)).is_empty()
            self._overlapping[terminal, other] = found
        return found

    def _may_look_alike(self, one: Expression, other: Expression) -> bool:
        """Whether texts of both may begin, and end, with the same byte."""
        (first, last), (other_first, other_last) = self._ends(one), self._ends(other)
        return bool(first & other_first and last & other_last) or (nullable(one) and nullable(other))

    def _ends(self, expression: Expression) -> tuple[int, int]:
        found = self._known_ends.get(id(expression))
        if found is None:
            found = self._known_ends[id(expression)] = first_bytes(expression), last_bytes(expression)
        return found

    def _matcher(self, terminal: int, expression: Expression) -> Matching:
        found = self._matchers.get(terminal)
        if found is None:
            found = self._matchers[terminal] = self._matching(expression)
        return found

    def _is_fixed(self, terminal: int) -> bool:
        """Whether a terminal matches one text only, which no other such terminal matches."""
        expression = self._rules.expressions[terminal]
        return expression is not None and expression[0] == LITERAL
