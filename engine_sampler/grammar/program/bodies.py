"""The bodies of rules, and the small automata that they become."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..errors import GrammarError
from ..work import spend, spend_on_each
from .operations import Operation, at_least, count, reset, saturate

Body: TypeAlias = "int | tuple[Any, ...]"

ACCEPT = -(1 << 31)
"""The symbol of an edge on which a rule ends."""

MANY = 64
"""The number of states, or items, from which on each is counted."""

MAX_NESTING = 200
"""The maximum nesting depth of a rule's body."""


def sequence(*items: Body) -> Body:
    """One item after the other."""
    return ("sequence", items)


def alternatives(*items: Body) -> Body:
    """Any one of the items; without items, nothing matches, not even the empty text."""
    return ("alternatives", items)


def repeated(item: Body, low: int = 0, high: int | None = None) -> Body:
    """`item`, low to high times; high None means no upper bound."""
    return ("repeated", item, low, high)


class Edge(NamedTuple):
    """A transition to `target` over `symbol`, if all operations, performed from left to right, pass."""

    symbol: int
    target: int
    operations: tuple[Operation, ...] = ()


PlainEdge: TypeAlias = tuple[int, int, tuple[Operation, ...]]
"""An `Edge`, or the plain tuple of its members, which takes a fifth of the time to make."""


_EPSILON = ACCEPT + 1
"""The symbol of an epsilon edge, which reads nothing; a finished automaton has none."""


class RuleAutomaton:
    """The automaton of a rule while its body is being read; state 0 is the first."""

    def __init__(self) -> None:
        self.edges: list[list[Edge]] = [[]]
        self.counters = 0
        self._with_epsilon: set[int] = set()

    def state(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def link(self, start: int, end: int, *operations: Operation) -> None:
        self.edges[start].append(Edge(_EPSILON, end, operations))
        self._with_epsilon.add(start)

    def build(self, body: Body, start: int, end: int, depth: int = 0) -> None:
        """Add the paths of `body` from `start` to `end`."""
        if isinstance(body, int):
            self.edges[start].append(Edge(body, end))
            return
        if depth > MAX_NESTING:
            raise GrammarError(f"a rule is nested more than {MAX_NESTING} deep")
        if body[0] == "sequence":
            if not body[1]:
                self.link(start, end)
            for item in self._counted(body[1][:-1]):
                middle = self.state()
                self.build(item, start, middle, depth + 1)
                start = middle
            for item in body[1][-1:]:
                self.build(item, start, end, depth + 1)
        elif body[0] == "alternatives":
            for item in self._counted(body[1]):
                self.build(item, start, end, depth + 1)
        else:
            item, low, high = body[1:]
            self._repeat(item, low, high, start, end, depth)

    @staticmethod
    def _counted(items: Sequence[Body]) -> Iterable[Body]:
        return items if len(items) < MANY else spend_on_each(items)

    def _repeat(self, item: Body, low: int, high: int | None, start: int, end: int, depth: int) -> None:
        if high is not None and low > high:
            return
        before, after = self.state(), self.state()
        if low == 0:
            self.link(start, end)
        if high == 0:
            return
        self.build(item, before, after, depth + 1)
        if high == 1:
            self.link(start, before)
            self.link(after, end)
        elif high is None and low <= 1:
            self.link(start, before)
            self.link(after, before)
            self.link(after, end)
        else:
            counter = self.counters
            self.counters += 1
            again = saturate(counter, low) if high is None else count(counter, high)
            self.link(start, before, reset(counter), again)
            self.link(after, before, again)
            self.link(after, end, at_least(counter, low), reset(counter))

    def without_epsilon_edges(self) -> list[list[Edge]]:
        """The edges of each state, in which epsilon edges are replaced by the edges that they lead to."""
        states: list[list[Edge]] = []
        for start, edges in enumerate(self.edges):
            if start not in self._with_epsilon:
                states.append(list(dict.fromkeys(edges)) if len(edges) > 1 else edges)
                continue
            replaced: dict[Edge, None] = {}
            seen: set[tuple[int, tuple[Operation, ...]]] = {(start, ())}
            paths: list[tuple[int, tuple[Operation, ...]]] = [(start, ())]
            while paths:
                state, passed = paths.pop()
                for symbol, target, operations in self.edges[state]:
                    path = passed + operations
                    if symbol != _EPSILON:
                        replaced[Edge(symbol, target, path)] = None
                    elif (target, path) not in seen and len(path) <= 4 * (self.counters + 1):
                        seen.add((target, path))
                        paths.append((target, path))
            spend((len(seen) + len(replaced)) // 6)
            states.append(list(replaced))
        return states
