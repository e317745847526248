"""Queries about one expression: whether it matches a given text, and whether it matches any text at all."""

from __future__ import annotations

from ...derivatives.derivatives import Derivatives
from ...derivatives.expressions import EMPTY as NOTHING
from ...derivatives.expressions import Expressions
from ...derivatives.limits import ReadingMeter
from ...derivatives.loading import number_of
from ...errors import GrammarLimitError
from ...program.expression import BOTH, CONCAT, EMPTY, GUARD, NOT, REPEAT, UNION, Expression
from ...work import spend

_SEARCH_STEPS = 20_000
"""Step limit of the search for a matching text; if it is reached, a matching text is assumed to exist."""

_MAX_CACHED_STATES = 20_000
"""Maximum number of states that a matcher caches; beyond it, the matcher starts again from scratch."""

_BYTES_AT_A_TIME = 1024
"""The bytes of a text whose matching is counted at once."""


class ValueMatcher:
    """Matches one expression by taking its derivative byte by byte."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._reset()

    def _reset(self) -> None:
        self._meter = ReadingMeter(_SEARCH_STEPS)
        self._expressions = Expressions(self._meter)
        self._root = number_of(self._expressions, self._expression, is_counted=True)
        self._derivatives = Derivatives(self._expressions)

    def matches(self, data: bytes) -> bool:
        """Whether the expression matches `data`.

        Raises GrammarLimitError if this takes too long.
        """
        if self._meter.states > _MAX_CACHED_STATES:
            self._reset()
        self._meter.left = _SEARCH_STEPS + 100 * len(data)
        state = self._root
        for begin in range(0, len(data), _BYTES_AT_A_TIME):
            some = data[begin : begin + _BYTES_AT_A_TIME]
            spend(1 + len(some) // 2)
            for byte in some:
                state = self._derivatives.derivative(state, byte)
                if state == NOTHING:
                    return False
        return self._expressions.nullable(state)

    def is_empty(self) -> bool:
        """Whether the expression matches nothing at all; also False if the search is cut short."""
        self._meter.left = _SEARCH_STEPS
        try:
            found = not self._derivatives.live(self._root)
        except GrammarLimitError:
            spend(0)  # the limit may be that on reading
            found = False
        return found


def is_empty(expression: Expression) -> bool:
    """Whether `expression` matches nothing at all; also False if the search is cut short."""
    if not _needs_search(expression):
        return expression == EMPTY
    return ValueMatcher(expression).is_empty()


def _needs_search(part: Expression) -> bool:
    """Whether `part` contains an operator that may make it empty without its being EMPTY."""
    seen: set[int] = set()
    waiting = [part]
    while waiting:
        expression = waiting.pop()
        if id(expression) in seen:
            continue
        spend()
        seen.add(id(expression))
        if expression[0] in (BOTH, NOT, GUARD):
            return True
        if expression[0] in (CONCAT, UNION):
            waiting += expression[1]
        elif expression[0] == REPEAT:
            waiting.append(expression[1])
    return False
