"""What may stand right before a terminal: the last characters of those that it may follow.

So `^`, `\\b` and lookbehinds at the beginning of a terminal have their meaning wherever all texts that may
come before it agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..program.expression import (
    ALL_BYTES,
    Expression,
    nullable,
)
from ..program.rules import Body
from ..program.unicode import LAST, Ranges, ranges
from ..regex.beginning import Before
from .following import FollowSets
from .outer_bytes import any_of, last_bytes


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


def _characters(mask: int) -> Ranges:
    """The characters whose last byte is in the mask."""
    found = [(byte, byte) for byte in range(128) if mask >> byte & 1]
    return ranges([*found, (128, LAST)] if mask >> 128 else found)
