"""Which terminals may follow which in the texts of a grammar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...program.rules import Body
from ...work import spend


class FollowSets:
    """Which terminals may follow which, in the bodies of rules.

    bodies  the body of each rule; a rule without one counts as a terminal
    empty   the terminals that may be empty

    Where one terminal ends several rules, this finds some that never meet; it misses none.
    """

    def __init__(self, bodies: Mapping[int, Body], empty: set[int]) -> None:
        self._bodies = bodies
        self._empty = empty
        self._successors: dict[int, set[int]] = {}
        self._find_empty()
        ends = {rule: self._ends(body) for rule, body in bodies.items()}
        self._first = {rule: first for rule, (first, _) in ends.items()}
        self._last = {rule: last for rule, (_, last) in ends.items()}
        self._known_firsts: dict[int, set[int]] = {}

    def candidates(self, start: int) -> list[set[int]]:
        """The terminals that may begin at the start of a text, and those that may follow each terminal."""
        return [self.at_start(start), *{id(found): found for found in self.followers().values()}.values()]

    def at_start(self, start: int) -> set[int]:
        """The terminals that may begin at the start of a text."""
        return self._firsts((start,))

    def followers(self) -> dict[int, set[int]]:
        """For each terminal those that may follow it."""
        shared: dict[frozenset[int], set[int]] = {}
        followers = {}
        for symbol, following in self._after().items():
            key = frozenset(following)
            if key not in shared:
                shared[key] = self._firsts(following)
            followers[symbol] = shared[key]
        return followers

    def _after(self) -> dict[int, set[int]]:
        """For each terminal the symbols that may follow it."""
        after: dict[int, set[int]] = {}
        for symbol, following in self._successors.items():
            ends = self._closure(symbol, self._last)
            spend(len(ends) + len(ends) * len(following) // 4)
            for end in ends:
                after.setdefault(end, set()).update(following)
        return after

    def _firsts(self, symbols: Iterable[int]) -> set[int]:
        """The terminals with which the symbols may begin."""
        for symbol in symbols:
            if symbol not in self._known_firsts:
                self._known_firsts[symbol] = self._closure(symbol, self._first)
            spend(1 + len(self._known_firsts[symbol]) // 16)
        return set().union(*(self._known_firsts[symbol] for symbol in symbols))

    def _closure(self, symbol: int, symbols: Mapping[int, set[int]]) -> set[int]:
        """The terminals that `symbol` leads to by `symbols`, the first or the last ones of each rule."""
        seen, waiting = {symbol}, [symbol]
        while waiting:
            new = symbols.get(waiting.pop(), set()) - seen
            spend(1 + len(new) // 8)
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
        spend(len(before) + len(before) * len(after) // 4)
        for symbol in before:
            self._successors.setdefault(symbol, set()).update(after)


def _symbols(body: Body) -> set[int]:
    if isinstance(body, int):
        return {body}
    if body[0] == "repeated":
        return _symbols(body[1])
    return set().union(*map(_symbols, body[1]))
