"""Values of JSON as a matcher remembers them, and those that what has begun may still become equal to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from ....base.json_cursor import JsonScalar, number_parts

Value: TypeAlias = "bytes | tuple[Value, ...] | frozenset[tuple[bytes, Value]]"
"""A scalar as `json_cursor` gives it, the items of an array, or the keys and values of an object."""

Values: TypeAlias = "frozenset[Value]"

_SHORT = {"\b": b"\\b", "\t": b"\\t", "\n": b"\\n", "\f": b"\\f", "\r": b"\\r"}
_SHORT |= {one: b"\\" + one.encode() for one in '"\\/'}


@lru_cache(maxsize=16)
def ascending_scalars(values: Values) -> list[bytes]:
    """The scalars among values in order, those with a common beginning side by side."""
    return sorted(one for one in values if isinstance(one, bytes))


@lru_cache(maxsize=64)
def keys_of(objects: Values) -> Values:
    """The keys of objects."""
    return frozenset(key for one in objects if isinstance(one, frozenset) for key, _ in one)


@lru_cache(maxsize=64)
def members_of(objects: Values, key: bytes) -> Values:
    """The values that objects have for a key."""
    return frozenset(
        value for one in objects if isinstance(one, frozenset) for name, value in one if name == key
    )


@lru_cache(maxsize=64)
def elements_of(arrays: Values, index: int, others: Values) -> Values:
    """The items of arrays at an index, and other values."""
    found: Iterable[Value] = (one[index] for one in arrays if isinstance(one, tuple) and len(one) > index)
    return others.union(found) if arrays else others


@lru_cache(maxsize=64)
def of_kind(values: Values, kind: type) -> Values:
    """The arrays (`tuple`) or the objects (`frozenset`) among values."""
    return frozenset(one for one in values if isinstance(one, kind))


class RivalStrings(NamedTuple):
    """The strings that one which has begun may become equal to: a `json_cursor.StringWatch`.

    texts      scalars in order; they are texts[low:high]
    offset     how many of their bytes are written
    """

    texts: list[bytes]
    low: int
    high: int
    offset: int

    def after(self, characters: bytes) -> RivalStrings | None:
        """Those that go on so; None if there are none."""
        texts, low, high, offset = self
        end = offset + len(characters)
        if high - low == 1:  # most often
            return RivalStrings(texts, low, high, end) if texts[low].startswith(characters, offset) else None
        begun = texts[low][:offset] + characters
        low = bisect_left(texts, begun, low, high)
        high = bisect_left(texts, begun + b"\xff", low, high)  # no UTF-8 has this byte
        return RivalStrings(texts, low, high, end) if low < high else None

    @property
    def ends(self) -> bool:
        """Whether one of them is written whole."""
        return len(self.texts[self.low]) == self.offset

    def next_parts(self, characters: bool = False) -> Iterator[bytes]:
        """The bytes that come next in them, or the characters in UTF-8."""
        at = self.low + self.ends
        while at < self.high:
            text, end = self.texts[at], self.offset + 1
            while characters and end < len(text) and text[end] & 0xC0 == 0x80:
                end += 1
            found = self.after(text[self.offset : end])
            assert found is not None
            yield text[self.offset : end]
            at = found.high

    def escapes(self, escape: bytes) -> list[bytes]:
        """The escapes with which they may go on that begin so, hexadecimal digits in small letters."""
        begun = escape[:2] + escape[2:].lower()
        return [way for one in self.next_parts(True) for way in _escapes(one) if way.startswith(begun)]

    def next_in(self, escape: bytes) -> bytes:
        """The bytes with which an escape that has begun goes on in them, or what follows a whole one."""
        following = {way[len(escape) : len(escape) + 1] for way in self.escapes(escape)}
        if b"" in following:  # half of a pair alone
            return bytes(range(0x20, 0x100))
        found = b"".join(following)
        return bytes(set(found + found.upper())) if len(escape) > 1 else found


@lru_cache(maxsize=1024)
def _escapes(character: bytes) -> list[bytes]:
    """The escapes of a character, hexadecimal digits in small letters; none of a part of one."""
    if 0x80 <= character[0] < 0xC0:
        return []
    text = character.decode("utf-8", "surrogatepass")
    units = text.encode("utf-16-be", "surrogatepass")
    found = [b"".join(b"\\u%04x" % int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))]
    return [*found, _SHORT[text]] if text in _SHORT else found


@lru_cache(maxsize=16)
def _numbers(values: Values) -> list[tuple[bytes, bool, int]]:
    """The numbers among values, in the order of their digits: these, whether they are negative, and a power
    of ten by which the digits, as a whole number, are to be multiplied."""
    numbers = []
    for one in ascending_scalars(values):
        if one[:1] in b"-0123456789":
            negative, digits, _, exponent = number_parts(one)
            short = digits.rstrip(b"0")
            numbers.append((short, negative, int(exponent or b"0") + len(digits) - len(short)))
    return sorted(numbers)


def may_become_one_of(scalar: JsonScalar, values: Values) -> bool:
    """Whether a scalar that has begun may become equal to one of some values."""
    if scalar.is_string:
        rivals = scalar.watch
        return rivals is not None and (not scalar.escape or bool(rivals.escapes(scalar.escape)))
    if scalar.text[:1].isalpha():
        return any(one.startswith(scalar.text) for one in ascending_scalars(values))
    numbers = _numbers(values)
    negative, digits, scale, exponent = number_parts(scalar.text)
    short = digits.rstrip(b"0")
    at = bisect_left(numbers, (short,))
    for number, its_sign, power in numbers[at:]:
        same = number == short
        if not number.startswith(digits) and not same:
            break
        if its_sign != negative and number:
            continue
        missing = power - (len(digits) - len(short)) + scale
        if exponent is None or (same and _may_become(exponent, missing if number else None)):
            return True
    return False


def _may_become(exponent: bytes, number: int | None) -> bool:
    """Whether an exponent that has begun may become a number; None for any."""
    if number is None or not exponent:
        return True
    if (exponent[:1] == b"-") != (number < 0) and exponent.strip(b"+-0"):
        return False
    return str(abs(number)).encode().startswith(exponent.lstrip(b"+-").lstrip(b"0"))
