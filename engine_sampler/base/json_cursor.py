"""JSON read piece by piece: the place in a text after any of its bytes, and what has ended there.

A `JsonPlace` is immutable, so that a reader can return to it, or go on from it in several ways. What the
reader wants to know of open arrays and objects is in its frames, which its `Events` make. The texts are valid
JSON: somebody else checks that.

A scalar is given such that equal values have equal bytes: a quote and the characters of a string in UTF-8, a
whole number in its digits, any other number as a whole number with an exponent, or the name of a constant.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

QUOTE, BACKSLASH = b'"'[0], b"\\"[0]
SPACE = b" \t\r\n"

_SHORT = dict(zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True))
_ESCAPE, _PAIR = len(b"\\u0000"), len(b"\\u0000\\u0000")
_MAX_EXPONENT = 4096
_MAX_PLAIN_ZEROS = 100
"""The most zeros that are written out at the end of a whole number."""


class StringWatch(Protocol):
    """Follows the characters of a string that has begun."""

    def after(self, characters: bytes) -> StringWatch | None:
        """What follows those behind some more of them, in UTF-8, if anything still does."""


class JsonScalar(NamedTuple):
    """A scalar, or a key, that has begun.

    text     the bytes of a number or constant; of a string, b'"' and what a backslash has begun
    earlier  of a string, its last characters and what came before them: None, or such a pair
    watch    of a string, what `Events.begun` has returned
    """

    text: bytes
    earlier: Any = None
    watch: Any = None

    @property
    def is_string(self) -> bool:
        """Whether it is a string."""
        return self.text[:1] == b'"'

    @property
    def escape(self) -> bytes:
        """What a backslash in a string has begun: b"" or part of an escape, or half of a surrogate pair."""
        return self.text[1:]


class JsonPlace(NamedTuple):
    """A place in a text.

    frame    what `Events` have made of the innermost open array or object, with an attribute `is_object`;
             None outside of them
    scalar   the scalar or key that has begun; None between them
    is_key   whether a string here is a key
    closed   whether a value has ended: no other one may begin before a comma
    """

    frame: Any = None
    scalar: JsonScalar | None = None
    is_key: bool = False
    closed: bool = False


class Events(Protocol):
    """What a reader does about the parts of a text. Each ends before data[at]; None refuses it."""

    def begun(self, place: JsonPlace) -> StringWatch | None:
        """A string begins at a place: what follows its characters, if anything does."""

    def opened(self, place: JsonPlace, is_object: bool, at: int) -> Any:
        """An array or object begins at a place."""

    def named(self, frame: Any, key: bytes) -> Any:
        """A key of an object has ended."""

    def ended(self, frame: Any, value: bytes, at: int) -> JsonPlace | None:
        """A scalar has ended: the place after it."""

    def closed(self, frame: Any, at: int) -> JsonPlace | None:
        """An array or object has ended: the place after it."""


def advance(place: JsonPlace, data: bytes, events: Events, start: int = 0) -> tuple[JsonPlace | None, int]:
    """The place after data[start:], or after the outermost array or object if that ends in it; and where it
    is. None if an event refuses it."""
    at, reached = start, place
    while at < len(data):
        if reached.scalar is not None:
            after, at = _within(reached, reached.scalar, data, at, events)
        else:
            after, at = _between(reached, data, at, events), at + 1
        if after is None or (after.frame is None and reached.frame is not None):
            return after, at
        reached = after
    return reached, at


def _between(place: JsonPlace, data: bytes, at: int, events: Events) -> JsonPlace | None:
    byte, frame = data[at], place.frame
    if byte in SPACE:
        return place
    if byte == QUOTE:
        return place._replace(scalar=JsonScalar(b'"', None, events.begun(place)))
    if byte in b"[{":
        inner = events.opened(place, byte == b"{"[0], at + 1)
        return None if inner is None else JsonPlace(inner, None, inner.is_object)
    if byte in b"]}":
        return None if frame is None else events.closed(frame, at + 1)
    if byte == b","[0]:
        return JsonPlace(frame, None, frame is not None and frame.is_object)
    if byte == b":"[0]:
        return JsonPlace(frame)
    return place._replace(scalar=JsonScalar(data[at : at + 1]))


def _within(
    place: JsonPlace, scalar: JsonScalar, data: bytes, at: int, events: Events
) -> tuple[JsonPlace | None, int]:
    """The place after the next bytes of a scalar, and where these end."""
    if not scalar.is_string:
        end = at
        while end < len(data) and data[end] not in b",]} \t\r\n":
            end += 1
        if end == at:
            return events.ended(place.frame, number_or_constant(scalar.text), at), at
        return place._replace(scalar=JsonScalar(scalar.text + data[at:end])), end
    if len(scalar.escape) == _ESCAPE and data[at] != BACKSLASH:
        return place._replace(scalar=_with_half(scalar, scalar.escape)), at
    if scalar.escape:
        return place._replace(scalar=_escaped(scalar, data[at])), at + 1
    ends = [end for mark in b'"\\' if (end := data.find(mark, at)) >= 0]
    end = min(ends, default=len(data))
    if end > at:
        return place._replace(scalar=with_characters(scalar, data[at:end])), end
    if data[at] == BACKSLASH:
        return place._replace(scalar=scalar._replace(text=b'"\\')), at + 1
    return _with_string(place, scalar, at + 1, events), at + 1


def _with_string(place: JsonPlace, scalar: JsonScalar, at: int, events: Events) -> JsonPlace | None:
    value = characters_of(scalar)
    if not place.is_key or place.frame is None:
        return events.ended(place.frame, value, at)
    frame = events.named(place.frame, value)
    return None if frame is None else JsonPlace(frame, closed=True)


def with_characters(scalar: JsonScalar, characters: bytes) -> JsonScalar:
    """A string with more characters, in UTF-8, behind what it has."""
    watch = None if scalar.watch is None else scalar.watch.after(characters)
    return JsonScalar(b'"', (characters, scalar.earlier), watch)


def characters_of(scalar: JsonScalar) -> bytes:
    """A quote and the characters of a string, without an escape that has only begun."""
    parts, earlier = [], scalar.earlier
    while earlier is not None:
        part, earlier = earlier
        parts.append(part)
    return b'"' + b"".join(parts[::-1])


def _escaped(scalar: JsonScalar, byte: int) -> JsonScalar:
    """A string after one more byte within an escape, or behind the first half of a pair."""
    escape = scalar.escape + bytes((byte,))
    if len(escape) == 2 and byte in _SHORT:
        return with_characters(scalar, bytes((_SHORT[byte],)))
    if len(escape) == _ESCAPE:
        return _with_unit(scalar, escape)
    half, other = escape[:_ESCAPE], escape[_ESCAPE:]
    if len(escape) == _PAIR and 0xDC00 <= _unit(other) < 0xE000:
        code = 0x10000 + (_unit(half) - 0xD800 << 10) + _unit(other) - 0xDC00
        return with_characters(scalar, chr(code).encode())
    if len(escape) == _PAIR:
        return _with_unit(_with_half(scalar, half), other)
    if len(other) == 2 and byte in _SHORT:
        return with_characters(_with_half(scalar, half), bytes((_SHORT[byte],)))
    return scalar._replace(text=b'"' + escape)


def _with_unit(scalar: JsonScalar, escape: bytes) -> JsonScalar:
    if 0xD800 <= _unit(escape) < 0xDC00:
        return scalar._replace(text=b'"' + escape)
    return with_characters(scalar, chr(_unit(escape)).encode("utf-8", "surrogatepass"))


def _with_half(scalar: JsonScalar, half: bytes) -> JsonScalar:
    return with_characters(scalar, chr(_unit(half)).encode("utf-8", "surrogatepass"))


def _unit(escape: bytes) -> int:
    return int(escape[2:6], 16)


class Number(NamedTuple):
    """A number as far as it is written.

    negative  whether it begins with a minus sign
    digits    its digits without zeros before them
    scale     the digits behind the point
    exponent  what follows "e"; None without one
    """

    negative: bool
    digits: bytes
    scale: int
    exponent: bytes | None


def number_parts(text: bytes) -> Number:
    """The parts of a number, or of the beginning of one."""
    mantissa, e, exponent = text.lower().partition(b"e")
    whole, _, fraction = mantissa.lstrip(b"-").partition(b".")
    return Number(text[:1] == b"-", (whole + fraction).lstrip(b"0"), len(fraction), exponent if e else None)


def number_or_constant(text: bytes) -> bytes:
    """A number or constant, such that equal values have equal bytes. Raises OverflowError for more than 4,096
    digits of an exponent."""
    if text.isalpha():
        return text
    negative, digits, scale, exponent = number_parts(text)
    if len(exponent or b"") > _MAX_EXPONENT:
        raise OverflowError("the exponent of a number is too long")
    short = digits.rstrip(b"0")
    if not short:
        return b"0"
    power = int(exponent or b"0") - scale + len(digits) - len(short)
    sign = b"-" if negative else b""
    if 0 <= power <= _MAX_PLAIN_ZEROS:
        return sign + short + b"0" * power
    return b"%s%se%d" % (sign, short, power)
