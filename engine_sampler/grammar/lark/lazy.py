"""Lazy terminals: they end as early as they can, and where they may begin nothing reads past that end.

Of the texts of a lazy terminal only those count that have no other one of them as a beginning. And where
it may begin, every other terminal is guarded: it is not read where a text of the lazy one begins, even one
that would reach beyond its end. So free text ends where a trigger has been written, and the trigger counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..program.expression import (
    ANY_BYTE,
    ANYTHING,
    EPSILON,
    Expression,
    concat,
    guard,
    nullable,
    union,
    without,
)
from ..program.rules import Body

_MORE = concat(ANY_BYTE, ANYTHING)


def shortest(expression: Expression) -> Expression:
    """The texts of `expression` that begin with no other one of them."""
    return EPSILON if nullable(expression) else without(expression, concat(expression, _MORE))


def committed(
    start: int, bodies: Mapping[int, Body], terminals: Mapping[int, Expression], lazy: Collection[int]
) -> dict[int, Expression]:
    """New expressions for the terminals that may stand where a lazy one may.

    bodies     of each rule its body; a rule that is missing counts as a terminal
    terminals  of each terminal its expression
    lazy       those that are lazy; one that is only ever empty ends nothing
    """
    empty = {symbol for symbol, expression in terminals.items() if nullable(expression)}
    triggers = set(lazy) - empty
    rivals: dict[int, set[int]] = {}
    for place in _Order(bodies, empty).places(start):
        here = place & triggers
        for symbol in place & terminals.keys():
            rivals.setdefault(symbol, set()).update(here)
    texts: dict[frozenset[int], tuple[Expression, Expression]] = {}
    changed = {}
    for symbol, others in rivals.items():
        if others - {symbol}:
            key = frozenset(others)
            if key not in texts:
                ended = union(*(terminals[other] for other in sorted(key)))
                texts[key] = ended, concat(ended, _MORE)
            ended, longer = texts[key]
            whole = terminals[symbol]
            changed[symbol] = without(whole, longer) if symbol in triggers else guard(whole, ended)
    return changed


class _Order:
    """Which terminals may stand at the same place: those that may follow the same terminal.

    That takes some for rivals that never are, where one terminal ends several rules; it misses none.
    """

    def __init__(self, bodies: Mapping[int, Body], empty: set[int]) -> None:
        self._bodies = bodies
        self._empty = empty
        self._next: dict[int, set[int]] = {}
        self._find_empty()
        ends = {rule: self._ends(body) for rule, body in bodies.items()}
        self._first = {rule: first for rule, (first, _) in ends.items()}
        self._last = {rule: last for rule, (_, last) in ends.items()}

    def places(self, start: int) -> list[set[int]]:
        """Of the beginning, and of the place behind each terminal, what may stand there."""
        behind: dict[int, set[int]] = {}
        for symbol, following in self._next.items():
            for end in self._closure(symbol, self._last):
                behind.setdefault(end, set()).update(following)
        first = {symbol: self._closure(symbol, self._first) for symbol in {start}.union(*behind.values())}
        distinct = {frozenset(following) for following in behind.values()} | {frozenset((start,))}
        return [set().union(*(first[symbol] for symbol in following)) for following in distinct]

    def _closure(self, symbol: int, edge: Mapping[int, set[int]]) -> set[int]:
        """The terminals at the edge of `symbol`."""
        seen, waiting = {symbol}, [symbol]
        while waiting:
            new = edge.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        return {one for one in seen if one not in self._bodies}

    def _find_empty(self) -> None:
        """Add the rules that may be empty to `_empty`."""
        users: dict[int, set[int]] = {}
        for rule, body in self._bodies.items():
            for symbol in _symbols(body):
                users.setdefault(symbol, set()).add(rule)
        waiting = list(self._bodies)
        while waiting:
            rule = waiting.pop()
            if rule not in self._empty and self._is_empty(self._bodies[rule]):
                self._empty.add(rule)
                waiting += users.get(rule, ())

    def _is_empty(self, body: Body) -> bool:
        if isinstance(body, int):
            return body in self._empty
        if body[0] == "repeated":
            return body[2] == 0 or self._is_empty(body[1])
        return (all if body[0] == "sequence" else any)(map(self._is_empty, body[1]))

    def _ends(self, body: Body) -> tuple[set[int], set[int]]:
        """The symbols that may be first and last in `body`; what follows what is noted in `_next`."""
        if isinstance(body, int):
            return {body}, {body}
        if body[0] == "repeated":
            first, last = self._ends(body[1])
            if body[3] != 1:
                self._note(last, first)
            return first, last
        pairs = [self._ends(item) for item in body[1]]
        if body[0] == "alternatives":
            return set().union(*(first for first, _ in pairs)), set().union(*(last for _, last in pairs))
        begins: set[int] = set()
        ends: set[int] = set()
        open_start = True
        for item, (first, last) in zip(body[1], pairs, strict=True):
            self._note(ends, first)
            if open_start:
                begins |= first
            if self._is_empty(item):
                ends = ends | last
            else:
                ends, open_start = last, False
        return begins, ends

    def _note(self, before: set[int], after: set[int]) -> None:
        for symbol in before:
            self._next.setdefault(symbol, set()).update(after)


def _symbols(body: Body) -> set[int]:
    if isinstance(body, int):
        return {body}
    if body[0] == "repeated":
        return _symbols(body[1])
    return set().union(*map(_symbols, body[1]))
