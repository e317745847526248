"""Least costs, and those of the texts that expressions match, in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

from ..derivatives.expressions import Expressions
from ..program.expression import AUTOMATON, BOTH, CLASS, CONCAT, GUARD, LITERAL, REPEAT, UNION

NEVER = 1 << 40
"""The cost of something impossible."""

Node: TypeAlias = tuple[int, ...]


class Making(NamedTuple):
    """One way to make a node: what it costs, and the nodes that it needs besides: all of them, or as much as
    the dearest of them."""

    cost: int
    parts: tuple[Node, ...] = ()
    is_dearest: bool = False


class LeastCosts:
    """The cost of the cheapest way to make a node, NEVER if there is none (Knuth 1977)."""

    def __init__(self, ways: Callable[[Node], Iterable[Making]]) -> None:
        self._ways = ways
        self._known: dict[Node, int] = {}

    def __call__(self, *node: int) -> int:
        if node not in self._known:
            self._solve(node)
        return self._known[node]

    def _solve(self, node: Node) -> None:
        """Find the costs of a node, and of all that it needs."""
        known, reached = self._known, [node]
        seen = {node}
        queue: list[tuple[int, Node]] = []
        users: dict[Node, list[tuple[Node, bool, list[int]]]] = {}
        for at in reached:  # which grows
            for cost, parts, is_dearest in self._ways(at):
                costs = [known[part] for part in parts if part in known]
                cost += max(costs, default=0) if is_dearest else sum(costs)
                missing = [part for part in parts if part not in known]
                if not missing:
                    heappush(queue, (cost, at))
                way = at, is_dearest, [cost, len(missing)]
                for part in missing:
                    users.setdefault(part, []).append(way)
                reached += dict.fromkeys(part for part in missing if part not in seen)
                seen.update(missing)
        while queue:
            cost, at = heappop(queue)
            if at in known or cost >= NEVER:
                continue
            known[at] = cost
            for user, is_dearest, left in users.get(at, ()):
                left[:] = max(left[0], cost) if is_dearest else left[0] + cost, left[1] - 1
                if not left[1]:
                    heappush(queue, (left[0], user))
        for at in reached:
            known.setdefault(at, NEVER)


_EXPRESSION, _TIMES, _STATE = range(3)


def expression_costs(expressions: Expressions) -> Callable[[int], int]:
    """What the cheapest text costs that an expression matches, or less."""

    def ways(node: Node) -> list[Making]:
        kind, at, *rest = node
        if kind == _EXPRESSION:
            return _ways_of_expression(expressions, at)
        if kind == _TIMES:
            half, count = rest[0] // 2, rest[0]
            halves = (_TIMES, at, half), (_TIMES, at, count - half)
            return [Making(0, halves if half else ((_EXPRESSION, at),) * count)]
        accepts, _, targets = expressions.automata[at][rest[0]]
        return [Making(0)] * accepts + [Making(1, ((_STATE, at, to),)) for to in set(targets) - {-1}]

    costs = LeastCosts(ways)
    return lambda number: costs(_EXPRESSION, number)


def _ways_of_expression(expressions: Expressions, number: int) -> list[Making]:
    node = expressions.nodes[number]
    kind = node[0]
    if kind in (LITERAL, CLASS):
        return [Making(len(node[1]) if kind == LITERAL else 1)]
    if kind in (CONCAT, GUARD):
        return [Making(0, tuple((_EXPRESSION, part) for part in node[1 : 3 if kind == CONCAT else 2]))]
    if kind == UNION:
        return [Making(0, ((_EXPRESSION, part),)) for part in node[1]]
    if kind == BOTH:
        return [Making(0, tuple((_EXPRESSION, part) for part in node[1]), is_dearest=True)]
    if kind == REPEAT:
        return [Making(0, ((_TIMES, node[1], node[2]),))]
    if kind == AUTOMATON:
        return [Making(0, ((_STATE, node[1], node[2]),))]
    return [Making(int(not expressions.endings[number]))]  # a complement
