"""The states of an expression, listed: for expressions that have few."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from ..program.expression import Expression, automaton
from ..work import spend
from .derivatives import Derivatives
from .expressions import Expressions
from .limits import Meter
from .loading import number_of

State: TypeAlias = "tuple[bool, list[tuple[int, int]]]"
"""Whether it accepts, and the bytes, as a mask, that lead to each next state."""


def states_of(expression: Expression, most: int, meter: Meter | None = None) -> list[State] | None:
    """The states of an expression, the first one first; None if there are more than `most`, or if it looks
    ahead. `meter` counts the work."""
    x = Expressions(Meter() if meter is None else meter)
    start = number_of(x, expression)
    steps = None if x.guarded[start] else reached(Derivatives(x), start, most)
    if steps is None:
        return None
    numbers = {state: number for number, state in enumerate(steps)}
    return [
        (bool(x.endings[state]), [(mask, numbers[after]) for after, mask in to.items()])
        for state, to in steps.items()
    ]


def reached(derivatives: Derivatives, start: int, most: int) -> dict[int, dict[int, int]] | None:
    """The steps from each state that can be reached: the bytes that lead to each next one. None if there are
    more states than `most`."""
    steps: dict[int, dict[int, int]] = {start: {}}
    for state in (waiting := [start]):
        spend(20)
        steps[state] = derivatives.live_steps(state)
        new = [after for after in steps[state] if after not in steps]
        steps.update({after: {} for after in new})
        waiting += new
        if len(waiting) > most:
            return None
    return steps


def texts_between(states: Sequence[State], start: int, ends: Collection[int]) -> Expression:
    """The texts from one state to one of `ends`, without the empty text."""
    rows = [tuple(one for mask, to in steps for one in byte_ranges(mask, to + 1)) for _, steps in states]
    accepting = [(number in ends, row) for number, row in enumerate(rows)]
    return automaton(((False, rows[start]), *accepting))


def byte_ranges(mask: int, target: int) -> Iterable[tuple[int, int, int]]:
    """The bytes of a mask as the edges of an `automaton` to one state."""
    while mask:
        low = (mask & -mask).bit_length() - 1
        above = ~(mask >> low)
        end = low + (above & -above).bit_length() - 1
        yield low, end - 1, target
        mask = mask >> end << end
