"""Questions about one expression: does it match this text, does it match anything at all?"""

from __future__ import annotations

from ..derivatives.derivatives import Derivatives
from ..derivatives.expressions import Expressions
from ..derivatives.limits import Meter
from ..derivatives.loading import Loader
from ..errors import GrammarLimitError
from ..program.expression import BOTH, CONCAT, EMPTY, GUARD, NOT, REPEAT, UNION, Encoder, Expression
from .limits import Budget

_SEARCH_STEPS = 20_000
"""Steps of the search for a text that matches; where they are not enough there is taken to be one."""

_KEPT_STATES = 20_000
"""States that a matcher remembers; with more than that it begins anew."""


class Matcher:
    """One expression, derived byte by byte."""

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._begin()

    def _begin(self) -> None:
        encoder = Encoder()
        root = encoder.add(self._expression)
        self._meter = Meter()
        self._expressions = Expressions(self._meter)
        self._root = Loader(self._expressions, encoder.code).numbers[root]
        self._derivatives = Derivatives(self._expressions)

    def matches(self, data: bytes, budget: Budget | None = None) -> bool:
        """Whether the expression matches `data`; `budget` pays for what is not remembered.

        Raises GrammarLimitError where that takes too long.
        """
        if self._meter.states > _KEPT_STATES:
            self._begin()
        before = self._meter.left = _SEARCH_STEPS + 100 * len(data)
        at = self._root
        for byte in data:
            at = self._derivatives.derivative(at, byte)
        if budget is not None:
            budget.spend((before - self._meter.left) // 2)
        return self._expressions.nullable(at)

    def is_empty(self) -> bool:
        """Whether the expression matches nothing at all; False as well where that is too hard to say."""
        self._meter.left = _SEARCH_STEPS
        try:
            return not self._derivatives.live(self._root)
        except GrammarLimitError:
            return False


def is_empty(expression: Expression) -> bool:
    """Whether `expression` matches nothing at all; False as well where that is too hard to say."""
    if not _needs_search(expression):
        return expression == EMPTY
    return Matcher(expression).is_empty()


def _needs_search(part: Expression) -> bool:
    """Whether something in `part` may be empty without looking so."""
    seen: set[int] = set()
    waiting = [part]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if one[0] in (BOTH, NOT, GUARD):
            return True
        if one[0] in (CONCAT, UNION):
            waiting += one[1]
        elif one[0] == REPEAT:
            waiting.append(one[1])
    return False
