"""The states of an expression, listed: for expressions that have few."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ..program.expression import Encoder, Expression
from ..work import spend
from .derivatives import Derivatives
from .expressions import Expressions
from .limits import Meter
from .loading import Loader

State: TypeAlias = "tuple[bool, list[tuple[int, int]]]"
"""Whether it accepts, and the bytes, as a mask, that lead to each next state."""


def states_of(expression: Expression, most: int) -> list[State] | None:
    """The states of an expression, the first one first; None if there are more than `most`, or if it looks
    ahead."""
    encoder = Encoder()
    root = encoder.add(expression)
    x = Expressions(Meter())
    start = Loader(x, encoder.code).numbers[root]
    if x.guarded[start]:
        return None
    derivatives = Derivatives(x)
    numbers = {start: 0}
    found: list[State] = []
    for number in (waiting := [start]):
        steps = derivatives.live_steps(number)
        for after in steps:
            if after not in numbers:
                numbers[after] = len(waiting)
                waiting.append(after)
        spend(20)
        if len(waiting) > most:
            return None
        found.append((bool(x.endings[number]), [(mask, numbers[after]) for after, mask in steps.items()]))
    return found


def byte_ranges(mask: int, target: int) -> Iterable[tuple[int, int, int]]:
    """The bytes of a mask as the edges of an `automaton` to one state."""
    low = None
    for byte in range(257):
        if mask >> byte & 1:
            low = byte if low is None else low
        elif low is not None:
            yield low, byte - 1, target
            low = None
