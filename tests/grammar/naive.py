"""The meaning of grammars as plainly as possible: sets of positions in a whole text, without tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from engine_sampler.grammar.program.expression import (
    AUTOMATON,
    BOTH,
    CLASS,
    CONCAT,
    GUARD,
    LITERAL,
    NOT,
    REPEAT,
    UNION,
    Expression,
)
from engine_sampler.grammar.program.operations import (
    AT_LEAST,
    CLAUSE,
    CLEAR,
    COUNT,
    RESET,
    SATURATE,
    Operation,
)
from engine_sampler.grammar.program.operations import SET as SET_BIT
from engine_sampler.grammar.program.rules import ACCEPT, Edge


@lru_cache(maxsize=100_000)
def ends(expression: Expression, text: bytes, start: int) -> frozenset[int]:
    """The positions where a match of `expression` that begins at `start` may end."""
    kind, *parts = expression
    if kind == CONCAT:
        return _after({start}, parts[0], text)
    if kind == UNION:
        return frozenset().union(*(ends(part, text, start) for part in parts[0]))
    if kind == BOTH:
        return frozenset.intersection(*(ends(part, text, start) for part in parts[0]))
    if kind == NOT:
        return frozenset(range(start, len(text) + 1)) - ends(parts[0], text, start)
    if kind == GUARD:
        return frozenset() if ends(parts[1], text, start) else ends(parts[0], text, start)
    if kind == REPEAT:
        part, low, high = parts
        return _ends_of_repeat(part, low, high, text, start)
    if kind == AUTOMATON:
        return _ends_of_automaton(parts[0], text, start)
    if kind == LITERAL:
        return frozenset({start + len(parts[0])} if text.startswith(parts[0], start) else ())
    assert kind == CLASS
    return frozenset({start + 1} if start < len(text) and parts[0] >> text[start] & 1 else ())


def _after(starts: Iterable[int], parts: Iterable[Expression], text: bytes) -> frozenset[int]:
    """The positions where matches of all parts in sequence may end, beginning at one of `starts`."""
    found = frozenset(starts)
    for part in parts:
        found = frozenset(end for position in found for end in ends(part, text, position))
    return found


def _ends_of_repeat(part: Expression, low: int, high: int | None, text: bytes, start: int) -> frozenset[int]:
    """Without an upper bound, more repetitions than the text has bytes find no new position."""
    found, result = frozenset((start,)), set[int]()
    for count in range((low + len(text) + 1 if high is None else high) + 1):
        if count >= low:
            result |= found
        found = _after(found, (part,), text)
    return frozenset(result)


def _ends_of_automaton(
    states: Sequence[tuple[bool, Sequence[Sequence[int]]]], text: bytes, start: int
) -> frozenset[int]:
    positions = set()
    state: int | None = 0
    while state is not None:
        accepts, ranges = states[state]
        if accepts:
            positions.add(start)
        targets = [target for low, high, target in ranges if start < len(text) and low <= text[start] <= high]
        state = targets[0] if targets else None
        start += 1
    return frozenset(positions)


class Naive:
    """A grammar: terminals as expressions, rules as automata of (states, bits, counters)."""

    def __init__(
        self,
        terminals: Mapping[int, Expression],
        rules: Sequence[Sequence[Sequence[Edge]]],
        ignore: Sequence[int],
        start: int,
    ) -> None:
        self.terminals = terminals
        self.rules = rules
        self.ignore = ignore
        self.start = start

    def accepts(self, text: bytes) -> bool:
        """Whether the whole text is in the language."""
        self._text = text
        positions = range(len(text) + 1)
        self._skips = [self._skip(at) for at in positions]
        self._ends: dict[tuple[int, int], set[int]] = {
            (rule, at): set() for rule in range(len(self.rules)) for at in positions
        }
        while self._improve():
            pass
        return any(len(text) in self._ends[self.start, at] for at in self._skips[0])

    def _improve(self) -> bool:
        """Find more positions where rules may end; returns whether there are any."""
        before = sum(map(len, self._ends.values()))
        for (rule, at), found in self._ends.items():
            found |= self._run(self.rules[rule], at)
        return sum(map(len, self._ends.values())) > before

    def _skip(self, start: int) -> set[int]:
        """The positions after ignored text, each stretch of it as long as possible."""
        positions, waiting = {start}, [start]
        while waiting:
            at = waiting.pop()
            for terminal in self.ignore:
                stretch = max(ends(self.terminals[terminal], self._text, at), default=at)
                if stretch not in positions:
                    positions.add(stretch)
                    waiting.append(stretch)
        return positions

    def _symbol(self, symbol: int, start: int) -> set[int]:
        if symbol < 0:
            return self._ends[-1 - symbol, start]
        found = ends(self.terminals[symbol], self._text, start)
        return {skipped for end in found for skipped in (self._skips[end] if end > start else {end})}

    def _run(self, states: Sequence[Sequence[Edge]], start: int) -> set[int]:
        result = set()
        first: tuple[int, int, frozenset[int], tuple[tuple[int, int], ...]] = (0, start, frozenset(), ())
        seen, waiting = {first}, [first]
        while waiting:
            state, at, bits, counters = waiting.pop()
            for symbol, target, operations in states[state]:
                after = apply(bits, dict(counters), operations)
                if after is None:
                    continue
                if symbol == ACCEPT:
                    result.add(at)
                    continue
                for end in self._symbol(symbol, at):
                    new = (target, end, *after)
                    if new not in seen:
                        seen.add(new)
                        waiting.append(new)
        return result


def apply(
    bits: frozenset[int], counters: dict[int, int], operations: Sequence[Operation]
) -> tuple[frozenset[int], tuple[tuple[int, int], ...]] | None:
    """The bits that are set and the counters after operations; None if one does not pass."""
    for kind, *values in operations:
        register = values[0]
        value = counters.get(register, 0)
        if kind == SET_BIT:
            bits |= {register}
        elif kind == RESET:
            counters[register] = 0
        elif kind == SATURATE:
            counters[register] = value if value >= values[1] else value + 1
        elif kind == COUNT:
            counters[register] = value + 1
        fails = (
            (kind == CLEAR and register in bits)
            or (kind == COUNT and value + 1 > values[1])
            or (kind == AT_LEAST and value < values[1])
            or (kind == CLAUSE and not any((one >> 1 in bits) == bool(one & 1) for one in values))
        )
        if fails:
            return None
    return bits, tuple(sorted(counters.items()))
