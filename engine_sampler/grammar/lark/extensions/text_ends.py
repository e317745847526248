"""A text and the end that follows it, as pairs of terminals.

The whole of both is lazy: it is complete as soon as a text and an end are. So which ends may follow a text
depends on the states of the text and of the whole behind it, and there is a pair for each two of these.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...derivatives.derivatives import Derivatives
from ...derivatives.expressions import Expressions
from ...derivatives.limits import ReadingMeter
from ...derivatives.loading import number_of
from ...derivatives.states import State, states_of, texts_between
from ...errors import GrammarLimitError
from ...program.expression import EPSILON, Expression, both, concat, union, without
from ...work import spend

MAX_STATES = 1024
"""The most states of a whole."""

MAX_PAIRS = 16
"""The most states in which an end may begin."""

_MAX_STEPS = 100_000


def pairs_of(text: Expression, end: Expression, whole: Expression) -> list[tuple[Expression, Expression]]:
    """Pairs of texts and ends, so that one of a pair behind the other makes up the texts of `whole`, all of
    which are a text and an end. Each of them is so in one way: its text is as long as it can be. Raises
    GrammarLimitError without a place."""
    texts, wholes = _states(text), _states(whole)
    text_ends, whole_ends = _accepting(texts), _accepting(wholes)
    pairs = []
    for one, other in _reached_together(texts, wholes):
        if one not in text_ends:
            continue
        front = both(_texts(texts, 0, {one}), _texts(wholes, 0, {other}))
        longer = concat(texts_between(texts, one, text_ends), end)
        last = both(end, without(_texts(wholes, other, whole_ends), longer))
        if _has_any(last):
            pairs.append((front, last))
    if len(pairs) > MAX_PAIRS:
        raise GrammarLimitError(f"the suffix depends on its text in more than {MAX_PAIRS} ways")
    return pairs


def _states(expression: Expression) -> list[State]:
    states = states_of(expression, MAX_STATES, ReadingMeter(_MAX_STEPS))
    if states is None:
        raise GrammarLimitError(f"the rule and its suffix have more than {MAX_STATES} states")
    return states


def _accepting(states: Sequence[State]) -> set[int]:
    return {number for number, (accepts, _) in enumerate(states) if accepts}


def _texts(states: Sequence[State], start: int, ends: Collection[int]) -> Expression:
    """The texts from one state to one of `ends`."""
    texts = texts_between(states, start, ends)
    return union(EPSILON, texts) if start in ends else texts


def _reached_together(some: Sequence[State], others: Sequence[State]) -> list[tuple[int, int]]:
    """The states of both that one text leads to."""
    reached = {(0, 0): None}
    for one, other in (waiting := [(0, 0)]):
        spend(1 + len(some[one][1]) * len(others[other][1]))
        new = {
            (to, also): None
            for mask, to in some[one][1]
            for second, also in others[other][1]
            if mask & second and (to, also) not in reached
        }
        reached |= new
        waiting += new
        if len(reached) > MAX_STATES:
            raise GrammarLimitError(f"the rule and its suffix have more than {MAX_STATES} states")
    return waiting


def _has_any(expression: Expression) -> bool:
    """Whether an expression matches anything."""
    x = Expressions(ReadingMeter(_MAX_STEPS))
    return Derivatives(x).live(number_of(x, expression))
