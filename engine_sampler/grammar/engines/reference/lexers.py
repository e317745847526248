"""The lexers of an LALR parser: which terminals each state tries in which order, as expressions.

Of a terminal that is tried it matters, beside what is left of it, what the whole text that follows would
have to be for it to match: that is forbidden to the terminals tried later, and, where it would be longer,
to itself. A **future** is an expression of such whole texts, up to their ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...derivatives.derivatives import Derivatives
from ...derivatives.expressions import ANY_BYTE, ANYTHING, EMPTY
from ...errors import GrammarError
from ...program.lalr import IGNORED, KEYWORD, Pairs, Parser

IGNORE = -1
"""What has been read where it is forgotten."""


class Reading(NamedTuple):
    """A terminal that may be read.

    symbol   the terminal, or IGNORE
    rest     its texts
    whole    those of the entry that it is read as: for a keyword and what it is a keyword of
    """

    symbol: int
    rest: int
    whole: int


class Begun(NamedTuple):
    """A reading, and the futures in which an entry tried before it matches."""

    reading: Reading
    taken: int


class Lexers:
    """The lexers of all states.

    terminals   the expression of each terminal, None for those of special tokens
    """

    def __init__(self, parser: Parser, terminals: Sequence[int | None], derivatives: Derivatives) -> None:
        self.derivatives = derivatives
        self._x = derivatives.expressions
        self._nonempty = self._x.concat(ANY_BYTE, ANYTHING)
        self._entries = [self._readings(state.entries, terminals) for state in parser.states]
        self._begun: dict[tuple[int, int], list[Begun]] = {}
        self._untouched: dict[int, list[Begun]] = {}

    def _readings(self, entries: Pairs, terminals: Sequence[int | None]) -> list[list[Reading]]:
        """Of each entry of a lexer what it may be read as."""
        x = self._x
        found = []
        keywords: list[tuple[int, int]] = []
        for terminal, kind in entries:
            expression = terminals[terminal]
            if expression is None:
                raise GrammarError("a lexer cannot try special tokens")
            if kind & KEYWORD:
                keywords.append((terminal, expression))
                continue
            readings, before = [], EMPTY
            for keyword, text in keywords:
                only = x.both((text, expression, x.complement(before)))
                readings.append(Reading(keyword, only, expression))
                before = x.union((before, text))
            own = x.both((expression, x.complement(before)))
            readings.append(Reading(IGNORE if kind & IGNORED else terminal, own, expression))
            found.append(readings)
            keywords = []
        return found

    def begin(self, state: int) -> list[Begun]:
        """What the lexer of a state may read."""
        found = self._untouched.get(state)
        if found is None:
            found = self._untouched[state] = self._ordered(self._entries[state])
        return found

    def begin_with(self, state: int, byte: int) -> list[Begun]:
        """What the lexer of a state may read, behind the first byte."""
        found = self._begun.get((state, byte))
        if found is None:
            left = [[self.step(one, byte) for one in readings] for readings in self._entries[state]]
            found = self._begun[state, byte] = self._ordered(left)
        return found

    def step(self, reading: Reading, byte: int) -> Reading:
        """What is left of a reading behind a byte."""
        derivative = self.derivatives.derivative
        return Reading(reading.symbol, derivative(reading.rest, byte), derivative(reading.whole, byte))

    def _ordered(self, entries: list[list[Reading]]) -> list[Begun]:
        taken = EMPTY
        found = []
        for readings in entries:
            found += [Begun(one, taken) for one in readings if self.derivatives.live(one.rest)]
            taken = self._x.union((taken, self._x.future(readings[0].whole)))
            if taken == ANYTHING:
                break
        return found

    def longer(self, number: int) -> int:
        """The futures in which an expression matches some beginning that is not empty."""
        x = self._x
        return x.future(x.both((number, self._nonempty)) if x.endings[number] else number)

    def possible(self, rest: int, taken: int) -> bool:
        """Whether `rest` can be read to its end, by more than nothing, in a future that is not `taken`."""
        if taken == EMPTY:
            return self.derivatives.continues(rest)
        return self.derivatives.live(self._x.both((self.longer(rest), self._x.complement(taken))))
