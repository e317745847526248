"""What may stand right before a terminal: the last characters of those that it may follow.

So `^`, `\\b` and lookbehinds at the beginning of a terminal have their meaning wherever all texts that may
come before it agree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ...program.byte_sets import any_of, last_bytes
from ...program.expression import (
    ALL_BYTES,
    Expression,
    nullable,
)
from ...program.rules import Body
from ...program.unicode import LAST, Ranges, ranges
from ...regex.beginning import Before
from ...work import spend
from .follow_sets import FollowSets


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


def texts_before_entries(
    wanted: Iterable[str],
    lexers: Iterable[tuple[str | None, Collection[str]]],
    terminals: Mapping[str, Expression],
    ignored: Iterable[str],
) -> dict[str, Before]:
    """What may stand before each of the terminals `wanted` where a lexer tries it, even if the parser cannot
    accept it there.

    lexers     the terminal after which each lexer begins, None for the beginning of the text, and what it
               tries
    terminals  the expression of each terminal; special tokens have none
    """
    lexers = list(lexers)
    skipped = any_of(last_bytes(terminals[name]) for name in ignored)
    before = {}
    for name in wanted:
        spend(len(lexers))
        after = {terminal for terminal, tried in lexers if name in tried}
        masks = (last_bytes(terminals[one]) if one in terminals else ALL_BYTES for one in after if one)
        before[name] = Before(_characters(any_of(masks) | skipped), None in after)
    return before


def _characters(mask: int) -> Ranges:
    """The characters whose last byte is in the mask."""
    found = [(byte, byte) for byte in range(128) if mask >> byte & 1]
    return ranges([*found, (128, LAST)] if mask >> 128 else found)
