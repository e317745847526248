"""Positions in JSON texts with arrays whose items must differ: the items so far, and the one that has begun.

Items are remembered by value: `1` and `1.0`, `"a"` and `"\\u0061"` are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ..errors import GrammarLimitError
from .item_values import BACKSLASH, QUOTE, SPACE, may_become_one_of, scalar_value

MAX_ITEM = 1 << 16
"""The most bytes of one of them."""


class ItemPosition(NamedTuple):
    """A position in a text.

    items    the items of the innermost array, as `scalar_value` writes them; None outside of arrays whose
             items must differ
    text     the bytes of the item that has begun; b"" between items
    escaped  whether its last byte was a backslash that begins an escape
    closed   whether an item has ended: no other one may begin before a comma
    """

    items: frozenset[bytes] | None = None
    text: bytes = b""
    escaped: bool = False
    closed: bool = False


def may_end_as_one_of(position: ItemPosition) -> bool:
    """Whether the item that has begun, or the next one, may become equal to one of the array."""
    items, text = position.items, position.text
    if not items or position.closed:
        return False
    if not text:
        return True
    return may_become_one_of(text, _ascending(items))


@lru_cache(maxsize=4)
def _ascending(items: frozenset[bytes]) -> list[bytes]:
    """The items in order, those with a common beginning side by side; for one mask, they are the same."""
    return sorted(items)


def _ended(position: ItemPosition) -> ItemPosition | None:
    """The position after the end of an item; None if the array has it."""
    value, items = scalar_value(position.text), position.items or frozenset()
    if value in items:
        return None
    return ItemPosition(items | {value}, closed=True)


def _longer(position: ItemPosition, data: bytes) -> ItemPosition:
    text = position.text + data
    if len(text) > MAX_ITEM:
        raise GrammarLimitError(f"an item has more than {MAX_ITEM} bytes (MAX_ITEM of unique_items)")
    return ItemPosition(position.items, text, False, position.closed)


def _within(position: ItemPosition, data: bytes, at: int) -> tuple[ItemPosition | None, int]:
    """The position after the next bytes of an array from data[at:] on, and where these end: after some bytes
    of a string, or one other byte."""
    byte, text = data[at], position.text
    if text[:1] == b'"':
        if position.escaped:
            return _longer(position, data[at : at + 1]), at + 1
        if byte == QUOTE:
            return _ended(_longer(position, b'"')), at + 1
        if byte == BACKSLASH:
            return _longer(position, b"\\")._replace(escaped=True), at + 1
        ends = [end for mark in b'"\\' if (end := data.find(mark, at)) >= 0]
        end = min(ends, default=len(data))
        return _longer(position, data[at:end]), end
    if text and byte in b",] \t\r\n":
        ended = _ended(position)
        return (None, at) if ended is None else (ended, at)
    if byte in SPACE:
        return position, at + 1
    if byte == b"]"[0]:
        return ItemPosition(), at + 1
    if byte == b","[0]:
        return position._replace(closed=False), at + 1
    return _longer(position, data[at : at + 1]), at + 1


def position_after(position: ItemPosition, data: bytes, opens: Callable[[int], bool]) -> ItemPosition | None:
    """The position after bytes that the grammar allows; None if an item repeats.

    opens  whether a bracket of `data` begins an array whose items must differ; asked in ascending order
    """
    at, found = 0, position
    while at < len(data):
        if found.items is None:
            at = data.find(b"[", at) + 1
            if not at:
                return ItemPosition()  # another one for each mask
            if opens(at - 1):
                found = ItemPosition(frozenset())
            continue
        after, at = _within(found, data, at)
        if after is None:
            return None
        found = after
    return found
