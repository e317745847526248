"""Finding stop patterns in a stream of bytes."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import TypeAlias

from ...base.errors import quoted
from ...base.forking import fork_safe
from ...contract import TextMatch, TextMatcher
from ..derivatives.derivatives import Derivatives
from ..derivatives.expressions import EMPTY, Expressions
from ..derivatives.limits import Meter
from ..derivatives.loading import number_of
from ..errors import GrammarLimitError
from ..regex.pattern import found_anywhere

WORK_PER_TOKEN = 5_000
"""The limit on attempts advanced and expressions created for one token, each about a microsecond: patterns
are untrusted input."""

MAX_ATTEMPTS = 256
"""The limit on simultaneous attempts."""

Attempt: TypeAlias = tuple[int, int, int]
"""A partial match: the number of its derivative, the index of its pattern, and its length in bytes so far."""

_ATTEMPT_BYTES = 3 * array("i").itemsize


class PatternMatcher(TextMatcher):
    """Finds the first of `patterns` (regular expressions) to be completed, at the first byte that completes
    any.

    include  whether the match stays in the text, which then ends after it; otherwise the text ends at the
             start of the longest of the pattern's matches that end at that byte.

    The state is the list of partial matches, the longest first, as the bytes of int32 [attempts, 3], because
    texts keep the states of all their tokens; of several with the same derivative only the longest is kept.
    Derivatives (Brzozowski 1964) are computed on demand.

    Raises GrammarError for a pattern that cannot be matched in a stream, and while reading,
    GrammarLimitError if matching one takes too much work.
    """

    start = b""

    def __init__(self, patterns: Sequence[str], include: bool = False) -> None:
        self._patterns = tuple(patterns)
        self._include = include
        self._lock = fork_safe(threading.RLock())
        self._meter = Meter()
        expressions = Expressions(self._meter)
        starts = [number_of(expressions, found_anywhere(pattern)) for pattern in patterns]
        self._derivatives = Derivatives(expressions)
        self._initial = tuple((start, index, 0) for index, start in enumerate(starts))

    def advance(self, state: bytes, data: bytes) -> tuple[bytes, TextMatch | None]:
        match = None
        attempts = _unpacked(state)
        with self._lock:
            self._meter.start(WORK_PER_TOKEN)
            for i, byte in enumerate(data, 1):
                ended = self._step(attempts, byte)
                attempts = [attempt for attempt in ended if self._derivatives.continues(attempt[0])]
                if match is None:
                    match = self._match(ended, i)
        return array("i", chain.from_iterable(attempts)).tobytes(), match

    def held(self, state: bytes) -> int:
        return _unpacked(state[:_ATTEMPT_BYTES])[0][2] if state and not self._include else 0

    def _step(self, attempts: Sequence[Attempt], byte: int) -> list[Attempt]:
        """The attempts after one more byte."""
        if len(attempts) > MAX_ATTEMPTS:
            raise GrammarLimitError(
                f"more than {MAX_ATTEMPTS} partial matches of {quoted(list(self._patterns))} in the text"
            )
        self._meter.spend(len(attempts) + 1)
        lengths: dict[tuple[int, int], int] = {}
        for number, index, length in (*attempts, *self._initial):
            derivative = self._derivatives.derivative(number, byte)
            if derivative != EMPTY:
                lengths.setdefault((derivative, index), length + 1)
        return [(number, index, length) for (number, index), length in lengths.items()]

    def _match(self, attempts: Sequence[Attempt], end: int) -> TextMatch | None:
        """The complete match, if there is one: the longest of the pattern listed first."""
        nullable = self._derivatives.expressions.nullable
        complete = [(index, -length) for number, index, length in attempts if nullable(number)]
        if not complete:
            return None
        index, negative_length = min(complete)
        return TextMatch(end, end if self._include else end + negative_length, self._patterns[index])


def _unpacked(state: bytes) -> list[Attempt]:
    """The attempts of a state."""
    numbers = iter(array("i", state))
    return list(zip(numbers, numbers, numbers, strict=True))
