"""Lazy terminals: they end as early as they can, and where they may begin, no terminal reads past that end.

A lazy terminal keeps only those of its texts that have no shorter one as a prefix. And wherever it may
begin, every other terminal is guarded: it cannot be read where a text of the lazy one begins, even if that
text would reach beyond its end. So free text ends at the first trigger, and the trigger counts.
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


def prefix_free(expression: Expression) -> Expression:
    """The texts of `expression` that have no other one of them as a prefix."""
    return EPSILON if nullable(expression) else without(expression, concat(expression, _MORE))


def guarded_terminals(
    start: int, bodies: Mapping[int, Body], terminals: Mapping[int, Expression], lazy: Collection[int]
) -> dict[int, Expression]:
    """New expressions for the terminals that may begin where a lazy one may.

    bodies     the body of each rule; a rule without one counts as a terminal
    terminals  the expression of each terminal
    lazy       the lazy terminals; one that matches the empty text has no effect on others
    """
    empty = {symbol for symbol, expression in terminals.items() if nullable(expression)}
    triggers = set(lazy) - empty
    rivals: dict[int, set[int]] = {}
    for candidates in _FollowSets(bodies, empty).candidates(start):
        for symbol in candidates & terminals.keys():
            rivals.setdefault(symbol, set()).update(candidates & triggers)
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


class _FollowSets:
    """The terminals that may begin at the same position: those that may follow the same terminal.

    Where one terminal ends several rules, this finds some rivals that never meet; it misses none.
    """

    def __init__(self, bodies: Mapping[int, Body], empty: set[int]) -> None:
        self._bodies = bodies
        self._empty = empty
        self._successors: dict[int, set[int]] = {}
        self._find_empty()
        ends = {rule: self._ends(body) for rule, body in bodies.items()}
        self._first = {rule: first for rule, (first, _) in ends.items()}
        self._last = {rule: last for rule, (_, last) in ends.items()}

    def candidates(self, start: int) -> list[set[int]]:
        """The terminals that may begin at the start of a text, and those that may follow each terminal."""
        after: dict[int, set[int]] = {}
        for symbol, following in self._successors.items():
            for end in self._closure(symbol, self._last):
                after.setdefault(end, set()).update(following)
        first = {symbol: self._closure(symbol, self._first) for symbol in {start}.union(*after.values())}
        distinct = {frozenset(following) for following in after.values()} | {frozenset((start,))}
        return [set().union(*(first[symbol] for symbol in following)) for following in distinct]

    def _closure(self, symbol: int, symbols: Mapping[int, set[int]]) -> set[int]:
        """The terminals that `symbol` leads to by `symbols`, the first or the last ones of each rule."""
        seen, waiting = {symbol}, [symbol]
        while waiting:
            new = symbols.get(waiting.pop(), set()) - seen
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
        """The symbols that may be first and last in `body`; adds to `_successors` which symbols may follow
        which."""
        if isinstance(body, int):
            return {body}, {body}
        if body[0] == "repeated":
            first, last = self._ends(body[1])
            if body[3] != 1:
                self._add_successors(last, first)
            return first, last
        pairs = [self._ends(item) for item in body[1]]
        if body[0] == "alternatives":
            return set().union(*(first for first, _ in pairs)), set().union(*(last for _, last in pairs))
        begins: set[int] = set()
        ends: set[int] = set()
        open_start = True
        for item, (first, last) in zip(body[1], pairs, strict=True):
            self._add_successors(ends, first)
            if open_start:
                begins |= first
            if self._is_empty(item):
                ends = ends | last
            else:
                ends, open_start = last, False
        return begins, ends

    def _add_successors(self, before: set[int], after: set[int]) -> None:
        for symbol in before:
            self._successors.setdefault(symbol, set()).update(after)


def _symbols(body: Body) -> set[int]:
    if isinstance(body, int):
        return {body}
    if body[0] == "repeated":
        return _symbols(body[1])
    return set().union(*map(_symbols, body[1]))
