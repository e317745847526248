"""What may stand right before a terminal: the last characters of those that it may follow.

So `^`, `\\b` and lookbehinds at the beginning of a terminal have their meaning wherever all texts that may
come before it agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..program.expression import (
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
from ..program.rules import Body
from ..program.unicode import LAST, Ranges, ranges
from ..regex.beginning import Before
from .following import FollowSets
from .skipping import any_of


def texts_before(
    wanted: Iterable[int],
    start: int,
    bodies: Mapping[int, Body],
    terminals: Sequence[Expression | None],
    ignored: Iterable[int],
) -> dict[int, Before]:
    """What may stand before each of the terminals `wanted`.

    bodies     the body of each rule; a rule without one may be any text
    terminals  the expression of each terminal; None for special tokens
    """
    empty = {symbol for symbol, one in enumerate(terminals) if one is not None and nullable(one)}
    follow = FollowSets(bodies, empty)
    at_start, followers = follow.at_start(start), follow.followers()

    def last(symbol: int) -> int:
        expression = terminals[symbol] if symbol >= 0 else None
        return ALL_BYTES if expression is None else last_bytes(expression)

    skipped = any_of(map(last, ignored))
    found = {}
    for symbol in wanted:
        before = any_of(last(other) for other, following in followers.items() if symbol in following)
        found[symbol] = Before(_characters(before | skipped), symbol in at_start)
    return found


def last_bytes(part: Expression) -> int:
    """The bytes with which the texts of an expression can end, as a mask; perhaps too many."""
    kind = part[0]
    if kind == LITERAL:
        return 1 << part[1][-1] if part[1] else 0
    if kind == CLASS:
        return int(part[1])
    if kind == UNION:
        return any_of(map(last_bytes, part[1]))
    if kind == CONCAT:
        mask = 0
        for piece in reversed(part[1]):
            mask |= last_bytes(piece)
            if not nullable(piece):
                break
        return mask
    if kind == BOTH:
        mask = ALL_BYTES
        for piece in part[1]:
            mask &= last_bytes(piece)
        return mask
    if kind in (REPEAT, GUARD):
        return last_bytes(part[1])
    if kind == AUTOMATON:
        edges = (edge for _, outgoing in part[1] for edge in outgoing)
        return any_of((1 << high + 1) - (1 << low) for low, high, target in edges if part[1][target][0])
    return ALL_BYTES


def _characters(mask: int) -> Ranges:
    """The characters whose last byte is in the mask."""
    found = [(byte, byte) for byte in range(128) if mask >> byte & 1]
    return ranges([*found, (128, LAST)] if mask >> 128 else found)
