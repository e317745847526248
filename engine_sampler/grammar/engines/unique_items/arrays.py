"""Where a text is among the items of arrays that must differ."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from ....base.json_cursor import JsonPlace, JsonScalar, advance, characters_of, with_characters
from ...errors import GrammarLimitError
from ...program.rules import MAX_UNIQUE_ITEMS, UNIQUE_MARK
from .values import (
    RivalStrings,
    Value,
    Values,
    ascending_scalars,
    elements_of,
    keys_of,
    may_become_one_of,
    members_of,
    of_kind,
)

MAX_NUMBER = 4096
"""The most bytes of a number."""

MAX_DEPTH = 100
"""The most arrays and objects that are open in each other."""

_MAX_SIGNED = 64
"""The most members of an open array or object whose places are remembered."""

_FEW = 8

_NONE: Values = frozenset()

FRESH = b"?"
"""A value that no text has, in place of one that equals none of those remembered."""

_IN_WORDS = b"0123456789.eE+-truefalsn,]} "
_BETWEEN = b' "{[-0123456789tfn:,]}'


class Container(NamedTuple):
    """An open array whose items must differ, or an open array or object within such an item.

    outer      the one around it; None if it is not a part of an item
    memo       what is known of places in it: of the outermost one, and the same for all in it
    depth      the number of those around it
    items      the items of an array whose items must differ; None for others
    is_object  whether it is an object
    length     the number of values so far
    values     the last value, for objects with its key, and all before it; None for none
    key        of the member whose value comes next
    rivals     the values that it may become equal to, of those remembered at its place
    all        `rivals` when it began
    repeated   how often an item was repeated in it where an alternative of the schema allows that
    """

    outer: Container | None
    memo: dict[Hashable, Any]
    depth: int = 0
    items: Values | None = None
    is_object: bool = False
    length: int = 0
    values: Any = None
    key: bytes | None = None
    rivals: Values = _NONE
    all: Values = _NONE
    repeated: int = 0


def rivals_at(place: JsonPlace) -> Values:
    """The remembered values that the value or key that has begun, or the next one, must be equal to for an
    item to be repeated."""
    top: Container | None = place.frame
    if top is None:
        return _NONE
    if not top.is_object:
        return elements_of(top.rivals, top.length, top.items or _NONE)
    if place.is_key:
        return keys_of(top.rivals)
    return _NONE if top.key is None else members_of(top.rivals, top.key)


def may_repeat(place: JsonPlace) -> bool:
    """Whether an item that has begun, or the next one, may become equal to one of its array."""
    if place.frame is None:
        return False
    if place.scalar is not None:
        if place.scalar.is_string:
            return may_become_one_of(place.scalar, _NONE)
        return may_become_one_of(place.scalar, rivals_at(place))
    return bool(place.frame.rivals) or (not place.closed and bool(rivals_at(place)))


def has_few_rivals(place: JsonPlace) -> bool:
    """Whether a string has begun that few others begin as: `continuing` is found fast then."""
    rivals: RivalStrings | None = None if place.scalar is None else place.scalar.watch
    return rivals is not None and rivals.high - rivals.low < _FEW


def continuing(place: JsonPlace) -> bytes:
    """The bytes behind a place after which an item may still become equal to one of its array, or is; and
    perhaps others. White space stands for itself only where it ends something."""
    scalar = place.scalar
    if scalar is None:
        return _BETWEEN
    if not scalar.is_string:
        return _IN_WORDS
    rivals = scalar.watch
    if rivals is None:
        return b""
    if scalar.escape:
        return rivals.next_in(scalar.escape)
    return b"".join(rivals.next_parts()) + b"\\" + b'"' * rivals.ends


def signature(place: JsonPlace, by_index: bool) -> Hashable:
    """What is equal for places in one outermost array from which the same can follow, whatever its items are;
    None if that would be long.

    by_index  whether it depends on the number of items before
    """
    parts: list[Hashable] = []
    frame = place.frame
    while frame is not None:
        if frame.items is not None and not by_index:
            parts.append(frame.repeated)
        elif frame.length > _MAX_SIGNED:
            return None
        else:
            parts += [frame.is_object, frame.key, frame.repeated]
            parts += [frame.length] if frame.outer is None else in_order(frame.values)
        frame = frame.outer
    text: Hashable = None
    if place.scalar is not None:
        text = place.scalar.text, _written(place.scalar)
    return text, place.is_key, place.closed, *parts


def step(place: JsonPlace, byte: int) -> JsonPlace | None:
    """The place after one more byte; None if an item is repeated."""
    scalar, data = place.scalar, bytes((byte,))
    if scalar is not None and len(scalar.text) == 1 and scalar.is_string and data not in b'"\\':
        return JsonPlace(place.frame, with_characters(scalar, data), place.is_key)  # most often
    return UniqueItemsReading().read(place, data)


def _written(scalar: JsonScalar) -> bytes:
    """The characters of a string; cheaper than `characters_of` if another one begins so."""
    rivals: RivalStrings | None = scalar.watch
    return characters_of(scalar) if rivals is None else rivals.texts[rivals.low][: rivals.offset]


class Feed:
    """The engine's matcher beside some bytes that follow it, as far as it is asked about them: then it makes
    a fork. Most bytes need none.

    before  makes the matcher before them
    marks   where `UNIQUE_MARK` says that an item is repeated
    agrees  whether the engine has read all that it was asked about
    """

    def __init__(self, before: Callable[[], Any], data: bytes) -> None:
        self._before, self._data = before, data
        self._matcher: Any = None
        self._done = 0
        self.marks: list[int] = []
        self.agrees = True

    def matcher_at(self, at: int) -> Any:
        """The matcher after the first `at` bytes."""
        if self._matcher is None:
            self._matcher = self._before()
        if at > self._done:
            self.agrees &= bool(self._matcher.accept_bytes(self._data[self._done : at]))
            self._done = at
        return self._matcher

    def opens(self, at: int) -> bool:
        """Whether the bracket before data[at] begins an array whose items must differ."""
        matcher = self.matcher_at(at)
        found = bool(matcher.accept_bytes(UNIQUE_MARK))
        if found:
            matcher.rollback(1)
        return found

    def may_repeat(self, at: int) -> bool:
        """Whether the item that ends before data[at] may be repeated; then the engine knows of it."""
        found = bool(self.matcher_at(at).accept_bytes(UNIQUE_MARK))
        self.marks += [at] * found
        return found

    def marked(self) -> bytes:
        """The bytes with the marks."""
        ends = [*self.marks, len(self._data)]
        starts = [0, *self.marks]
        return UNIQUE_MARK.join(self._data[i:j] for i, j in zip(starts, ends, strict=True))


class UniqueItemsReading:
    """What ends in a text: `json_cursor.Events` of arrays whose items must differ.

    feed  the engine's matcher; None: no array begins whose items must differ, and nothing may be repeated
    """

    def __init__(self, feed: Feed | None = None) -> None:
        self._feed = feed

    def read(self, place: JsonPlace, data: bytes, start: int = 0) -> JsonPlace | None:
        """The place after data[start:], which the grammar allows; None if an item is repeated."""
        at, here = start, place
        while at < len(data):
            if here.frame is None:
                at = data.find(b"[", at) + 1
                if not at:
                    return JsonPlace()  # another one for each mask
                if self._feed is not None and self._feed.opens(at):
                    here = JsonPlace(Container(None, {}, items=_NONE))
                continue
            try:
                after, at = advance(here, data, self, at)
            except OverflowError:
                raise _too_long() from None
            if after is None:
                return None
            here = after
        scalar = here.scalar
        if scalar is not None and len(scalar.text) > MAX_NUMBER:
            raise _too_long()
        return here

    def begun(self, place: JsonPlace) -> RivalStrings | None:
        """The strings that one which begins here may become equal to."""
        texts = ascending_scalars(rivals_at(place))
        return RivalStrings(texts, 0, len(texts), 0).after(b'"') if texts else None

    def opened(self, place: JsonPlace, is_object: bool, at: int) -> Container:
        """An array or object begins within an item."""
        top = place.frame
        assert top is not None
        if top.depth >= MAX_DEPTH:
            raise GrammarLimitError(
                f"an item is nested more than {MAX_DEPTH} deep (MAX_DEPTH of unique_items)"
            )
        rivals = of_kind(rivals_at(place), frozenset if is_object else tuple)
        unique = not is_object and self._feed is not None and self._feed.opens(at)
        found = Container(top, top.memo, top.depth + 1, _NONE if unique else None, is_object)
        return found._replace(rivals=rivals, all=rivals)

    def named(self, frame: Container, key: bytes) -> Container:
        """An object after a key. Of members with equal keys, the last one counts."""
        rivals, members = frame.rivals, frame.values if frame.all else None
        while members is not None:
            (name, _), members = members
            if name == key:
                others = {name: value for name, value in in_order(frame.values) if name != key}.items()
                rivals = frozenset(one for one in frame.all if isinstance(one, frozenset) and others <= one)
                break
        return frame._replace(key=key, rivals=rivals)

    def ended(self, frame: Container | None, value: bytes, at: int) -> JsonPlace | None:
        """A scalar has ended."""
        assert frame is not None
        return self._with_value(frame, value, at)

    def _with_value(self, top: Container, value: Value, at: int) -> JsonPlace | None:
        """The place after a value of a container; None if an array has it among its items."""
        items, repeated = top.items, top.repeated
        if items is not None and value in items:
            if self._feed is None or not self._feed.may_repeat(at):
                return None
            items, repeated = None, repeated + 1
        elif items is not None:
            if len(items) >= MAX_UNIQUE_ITEMS:
                raise GrammarLimitError(
                    f"an array has more than {MAX_UNIQUE_ITEMS} items that must differ (MAX_UNIQUE_ITEMS)"
                )
            items |= {value}
        if top.outer is None and items is None:
            return JsonPlace()  # what reads the array now may repeat items
        if top.outer is None:
            return JsonPlace(top._replace(items=items, length=top.length + 1), closed=True)
        rivals: frozenset[Any] = top.rivals
        last: Any = (top.key, value) if top.is_object else value
        if top.is_object:
            rivals = frozenset(one for one in rivals if last in one)
        elif rivals:
            length = top.length
            rivals = frozenset(one for one in rivals if one[length : length + 1] == (value,))
        values = (last, top.values)
        top = top._replace(items=items, length=top.length + 1, values=values, key=None, rivals=rivals)
        return JsonPlace(top._replace(repeated=repeated), closed=True)

    def closed(self, frame: Container, at: int) -> JsonPlace | None:
        """A container has ended."""
        if frame.outer is None:
            return JsonPlace()
        values = in_order(frame.values)
        value: Value = frozenset(dict(values).items()) if frame.is_object else tuple(values)
        outer = frame.outer
        if frame.repeated:
            outer = outer._replace(repeated=outer.repeated + frame.repeated)
        return self._with_value(outer, value, at)


def in_order(values: Any) -> list[Any]:
    """The values that each refer to those before them, the first one first."""
    found = []
    while values is not None:
        last, values = values
        found.append(last)
    return found[::-1]


def _too_long() -> GrammarLimitError:
    return GrammarLimitError(f"a number among items that must differ has more than {MAX_NUMBER} bytes")
