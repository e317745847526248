"""Where a text is among the items of arrays that must differ, byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...errors import GrammarLimitError
from ...program.rules import MAX_UNIQUE_ITEMS
from ..item_values import BACKSLASH, QUOTE, SPACE, may_become_one_of, scalar_value
from .values import (
    Value,
    ascending_scalars,
    elements_of,
    keys_of,
    members_of,
    of_kind,
)

MAX_ITEM = 1 << 16
"""The most bytes of an item."""

MAX_DEPTH = 100
"""The most arrays and objects that are open in each other."""

_NONE: frozenset[Value] = frozenset()


class Container(NamedTuple):
    """An open array whose items must differ, or an open array or object within such an item.

    outer   the one around it; None if it is no part of an item
    depth   the number of those around it
    items   the items of an array whose items must differ; None for others
    object  whether it is an object
    length  the number of values so far
    values  the last value, for objects with its key, and all before it; None for none
    key     of the member whose value comes next
    rivals  the values that it may become equal to, of those remembered at its place
    all     `rivals` when it began
    """

    outer: Container | None
    depth: int = 0
    items: frozenset[Value] | None = None
    object: bool = False
    length: int = 0
    values: Any = None
    key: bytes | None = None
    rivals: frozenset[Value] = _NONE
    all: frozenset[Value] = _NONE


class NestedPosition(NamedTuple):
    """A position in a text.

    top      the innermost container; None outside of arrays whose items must differ
    text     the bytes of the scalar or key that has begun; b"" between them
    escaped  whether its last byte was a backslash that begins an escape
    closed   whether a value has ended: no other one may begin before a comma
    size     bytes of the item so far
    """

    top: Container | None = None
    text: bytes = b""
    escaped: bool = False
    closed: bool = False
    size: int = 0

    @property
    def rivals(self) -> frozenset[Value]:
        """The remembered values that the value or key that has begun, or the next one, must be equal to for
        an item to be repeated."""
        top = self.top
        if top is None:
            return _NONE
        if not top.object:
            return elements_of(top.rivals, top.length, top.items or _NONE)
        return keys_of(top.rivals) if top.key is None else members_of(top.rivals, top.key)

    @property
    def is_flat(self) -> bool:
        """Whether it is in an array whose items must differ, in no other one and no object of an item."""
        return self.top is not None and self.top.outer is None


def may_repeat(position: NestedPosition) -> bool:
    """Whether an item that has begun, or the next one, may become equal to one of its array."""
    top, text = position.top, position.text
    if top is None:
        return False
    if text:
        scalars = ascending_scalars(position.rivals)
        return bool(scalars) and may_become_one_of(text, scalars)
    if top.rivals:
        return True
    return not position.closed and bool(position.rivals)


def position_after(
    position: NestedPosition, data: bytes, opens: Callable[[int], bool]
) -> NestedPosition | None:
    """The position after bytes that the grammar allows; None if an item repeats.

    opens  whether a bracket of `data` begins an array whose items must differ; asked in ascending order
    """
    at, found = 0, position
    while at < len(data):
        if found.top is None:
            at = data.find(b"[", at) + 1
            if not at:
                return NestedPosition()  # another one for each mask
            if opens(at - 1):
                found = NestedPosition(Container(None, items=_NONE))
            continue
        after, end = _within(found, found.top, data, at, opens)
        if after is None:
            return None
        if after.top is not None and (after.text or after.top.outer is not None):
            after = after._replace(size=found.size + end - at)
            if after.size > MAX_ITEM:
                raise GrammarLimitError(f"an item has more than {MAX_ITEM} bytes (MAX_ITEM of nested_items)")
        found, at = after, end
    return found


def _within(
    position: NestedPosition, top: Container, data: bytes, at: int, opens: Callable[[int], bool]
) -> tuple[NestedPosition | None, int]:
    """The position after the next bytes of an array from data[at:] on, and where these end: after some bytes
    of a string, or one other byte."""
    byte, text = data[at], position.text
    if text[:1] == b'"':
        return _within_string(position, top, data, at)
    if text and byte in b",]} \t\r\n":
        return _with_value(top, scalar_value(text)), at
    at += 1
    if byte in SPACE or byte == b":"[0]:
        return position, at
    if byte == b","[0]:
        return position._replace(closed=False), at
    if byte in b"]}":
        return _closed(top), at
    if byte == b"{"[0]:
        return NestedPosition(_opened(position, top, True)), at
    if byte == b"["[0]:
        inner = _opened(position, top, False)
        return NestedPosition(inner._replace(items=_NONE) if opens(at - 1) else inner), at
    return position._replace(text=text + data[at - 1 : at]), at


def _within_string(
    position: NestedPosition, top: Container, data: bytes, at: int
) -> tuple[NestedPosition | None, int]:
    byte, text = data[at], position.text
    if position.escaped:
        return position._replace(text=text + data[at : at + 1], escaped=False), at + 1
    if byte == QUOTE:
        value = scalar_value(text + b'"')
        if top.object and top.key is None:
            return NestedPosition(_with_key(top, value)), at + 1
        return _with_value(top, value), at + 1
    if byte == BACKSLASH:
        return position._replace(text=text + b"\\", escaped=True), at + 1
    ends = [end for mark in b'"\\' if (end := data.find(mark, at)) >= 0]
    end = min(ends, default=len(data))
    return position._replace(text=text + data[at:end]), end


def _opened(position: NestedPosition, top: Container, is_object: bool) -> Container:
    if top.depth >= MAX_DEPTH:
        raise GrammarLimitError(f"an item is nested more than {MAX_DEPTH} deep (MAX_DEPTH of nested_items)")
    rivals = of_kind(position.rivals, frozenset if is_object else tuple)
    return Container(top, top.depth + 1, object=is_object, rivals=rivals, all=rivals)


def _with_key(top: Container, key: bytes) -> Container:
    """An object after a key. Of members with equal keys, the last one counts."""
    rivals, members = top.rivals, top.values
    while members is not None:
        (name, _), members = members
        if name == key:
            others = {name: value for name, value in _in_order(top.values) if name != key}.items()
            rivals = frozenset(one for one in top.all if isinstance(one, frozenset) and others <= one)
            break
    return top._replace(key=key, rivals=rivals)


def _with_value(top: Container, value: Value) -> NestedPosition | None:
    """The position after a value of a container; None if an array has it among its items."""
    items, length = top.items, top.length
    if items is not None:
        if value in items:
            return None
        if len(items) >= MAX_UNIQUE_ITEMS:
            raise GrammarLimitError(
                f"an array has more than {MAX_UNIQUE_ITEMS} items that must differ (MAX_UNIQUE_ITEMS)"
            )
        items |= {value}
    if top.outer is None:
        return NestedPosition(Container(None, items=items), closed=True)
    rivals: frozenset[Any] = top.rivals
    last: Any = (top.key, value) if top.object else value
    if top.object:
        rivals = frozenset(one for one in rivals if last in one)
    elif rivals:
        rivals = frozenset(one for one in rivals if one[length : length + 1] == (value,))
    top = top._replace(items=items, length=length + 1, values=(last, top.values), key=None, rivals=rivals)
    return NestedPosition(top, closed=True)


def _closed(top: Container) -> NestedPosition | None:
    """The position after the end of a container; None if the array around it has it among its items."""
    if top.outer is None:
        return NestedPosition()
    values = _in_order(top.values)
    return _with_value(top.outer, frozenset(dict(values).items()) if top.object else tuple(values))


def _in_order(values: Any) -> list[Any]:
    """The values that each refer to those before them, the first one first."""
    found = []
    while values is not None:
        last, values = values
        found.append(last)
    return found[::-1]
