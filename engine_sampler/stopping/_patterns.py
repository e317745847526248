"""Stop patterns found in a stream of bytes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TypeAlias

from ..contract import TextMatch, TextMatcher
from ..grammar.derivatives.derivatives import Derivatives
from ..grammar.derivatives.expressions import EMPTY, Expressions
from ..grammar.derivatives.limits import Meter
from ..grammar.derivatives.loading import Loader
from ..grammar.errors import GrammarLimitError
from ..grammar.program.expression import Encoder
from ..grammar.regex.pattern import found_anywhere

WORK_PER_TOKEN = 20_000
"""Attempts moved and expressions made for one token: patterns come from strangers."""

MOST_ATTEMPTS = 256
"""Attempts under way at a time."""

Attempt: TypeAlias = tuple[int, int, int]
"""A match in the making: the number of what is to come, which pattern it is of, and its bytes so far."""


class PatternMatcher(TextMatcher):
    """Finds the first of `patterns` (regular expressions) that is complete, at the first byte that
    completes any.

    include  whether the match stays in the text, which then ends behind it; otherwise the text ends where
             the longest of the pattern's matches that end there begins.

    The state is the attempts under way, the longest first; of several with an equal future the longest
    stands for all. They are followed by derivatives (Brzozowski 1964), made as they are needed.

    Raises GrammarError for a pattern that cannot be looked for in a stream, and while reading
    GrammarLimitError where one is too hard to follow.
    """

    start: tuple[Attempt, ...] = ()

    def __init__(self, patterns: Sequence[str], include: bool = False) -> None:
        self._patterns = tuple(patterns)
        self._include = include
        self._lock = threading.Lock()
        self._meter = Meter()
        encoder = Encoder()
        nodes = [encoder.add(found_anywhere(pattern)) for pattern in patterns]
        expressions = Expressions(self._meter)
        numbers = Loader(expressions, encoder.code).numbers
        self._derivatives = Derivatives(expressions)
        self._fresh = tuple((numbers[node], which, 0) for which, node in enumerate(nodes))

    def advance(
        self, state: tuple[Attempt, ...], data: bytes
    ) -> tuple[tuple[Attempt, ...], TextMatch | None]:
        match = None
        with self._lock:
            self._meter.left = WORK_PER_TOKEN
            for i, byte in enumerate(data, 1):
                ended = self._step(state, byte)
                state = tuple(attempt for attempt in ended if self._derivatives.continues(attempt[0]))
                if match is None:
                    match = self._match(ended, i)
        return state, match

    def held(self, state: tuple[Attempt, ...]) -> int:
        return state[0][2] if state and not self._include else 0

    def _step(self, state: tuple[Attempt, ...], byte: int) -> list[Attempt]:
        """The attempts behind one more byte."""
        if len(state) > MOST_ATTEMPTS:
            raise GrammarLimitError(f"more than {MOST_ATTEMPTS} matches of stop_regex are under way")
        self._meter.spend(len(state) + 1)
        ages: dict[tuple[int, int], int] = {}
        for number, which, age in (*state, *self._fresh):
            following = self._derivatives.derivative(number, byte)
            if following != EMPTY:
                ages.setdefault((following, which), age + 1)
        return [(number, which, age) for (number, which), age in ages.items()]

    def _match(self, attempts: Sequence[Attempt], end: int) -> TextMatch | None:
        """The match that is complete, if any is: of the pattern listed first, the longest."""
        nullable = self._derivatives.expressions.nullable
        complete = [(which, -age) for number, which, age in attempts if nullable(number)]
        if not complete:
            return None
        which, negative_age = min(complete)
        return TextMatch(end, end if self._include else end + negative_age, self._patterns[which])
