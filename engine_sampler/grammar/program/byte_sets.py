"""The bytes in the texts of an expression, and at either end of them, as masks of 256 bits; perhaps too
many."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from .expression import (
    ALL_BYTES,
    AUTOMATON,
    BOTH,
    CLASS,
    CONCAT,
    GUARD,
    LITERAL,
    REPEAT,
    UNION,
    Expression,
    nullable,
)


def first_bytes(part: Expression) -> int:
    """The bytes with which the texts of an expression can begin."""
    return _outer_bytes(part, 0, {})


def last_bytes(part: Expression) -> int:
    """The bytes with which the texts of an expression can end."""
    return _outer_bytes(part, -1, {})


def inner_bytes(part: Expression) -> int:
    """The bytes that occur in an expression: in its texts, and in what may not follow them."""
    kind = part[0]
    if kind == LITERAL:
        return any_of(1 << byte for byte in part[1])
    if kind == CLASS:
        return int(part[1])
    if kind in (CONCAT, UNION, BOTH):
        return any_of(map(inner_bytes, part[1]))
    if kind == REPEAT:
        return inner_bytes(part[1])
    if kind == GUARD:
        return inner_bytes(part[1]) | inner_bytes(part[2])
    if kind == AUTOMATON:
        return any_of((1 << high + 1) - (1 << low) for _, edges in part[1] for low, high, _ in edges)
    return ALL_BYTES


def any_of(masks: Iterable[int]) -> int:
    """The bytes in any of the masks."""
    return reduce(or_, masks, 0)


def _outer_bytes(part: Expression, end: int, known: dict[int, int]) -> int:
    """`end`: 0 for the first bytes, −1 for the last ones; `known`: those of parts, by their identity."""
    found = known.get(id(part))
    if found is None:
        found = known[id(part)] = _bytes_of(part, end, known)
    return found


def _bytes_of(part: Expression, end: int, known: dict[int, int]) -> int:
    kind = part[0]
    if kind == LITERAL:
        return 1 << part[1][end] if part[1] else 0
    if kind == CLASS:
        return int(part[1])
    if kind == UNION:
        return any_of(_outer_bytes(piece, end, known) for piece in part[1])
    if kind == CONCAT:
        mask = 0
        for piece in part[1] if end == 0 else reversed(part[1]):
            mask |= _outer_bytes(piece, end, known)
            if not nullable(piece):
                break
        return mask
    if kind == BOTH:
        mask = ALL_BYTES
        for piece in part[1]:
            mask &= _outer_bytes(piece, end, known)
        return mask
    if kind in (REPEAT, GUARD):
        return _outer_bytes(part[1], end, known)
    if kind == AUTOMATON:
        return any_of((1 << high + 1) - (1 << low) for low, high in _outer_edges(part[1], end))
    return ALL_BYTES


def _outer_edges(states: tuple[Any, ...], end: int) -> Iterable[tuple[int, int]]:
    """The ranges of bytes on the edges out of the first state, or into those that accept."""
    if end == 0:
        return ((low, high) for low, high, _ in states[0][1])
    return ((low, high) for _, edges in states for low, high, target in edges if states[target][0])
