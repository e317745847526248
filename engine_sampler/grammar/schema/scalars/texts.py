"""Strings as written in JSON text: the bytes that represent each character.

A **body** is the text between the quotes. If a string is unconstrained, any body of RFC 8259 is accepted
(`ANY_BODY`; UTF-8 is valid and surrogates come in pairs). If its characters matter (keys, constants,
patterns, formats), printable ASCII characters are written plainly, all others also as `\\uXXXX` with
digits of either case, and characters that have a short escape also with that escape: `PLAIN_BODY`
contains all such bodies, one or more for every string, and expressions for sets of strings are subsets of
it. So complements within it are exact, and `"\\u0061"` cannot pass for a key that differs from `"a"`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import groupby

from ...program.expression import (
    EMPTY,
    EPSILON,
    Expression,
    Frequent,
    byte_class,
    concat,
    literal,
    repeat,
    union,
)
from ...program.unicode import characters
from ...work import sort, spend, spend_on_each

QUOTE = literal(b'"')
WHITESPACE = byte_class(1 << 0x20 | 1 << 0x09 | 1 << 0x0A | 1 << 0x0D)

PLAIN_BYTES = ((1 << 0x80) - (1 << 0x20)) & ~(1 << 0x22) & ~(1 << 0x5C)
"""The ASCII characters that may be written as themselves."""

_MAX_UNGROUPED = 32
_MAX_GROUPING_DEPTH = 50

_SHORT = {0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x2F: "/", 0x5C: "\\"}


def _hex_digits(mask: int) -> Expression:
    """The hexadecimal digits whose bits are set in `mask`."""
    digits = [digit for value, digit in enumerate("0123456789abcdef") if mask >> value & 1]
    return byte_class(sum({1 << ord(either) for digit in digits for either in (digit, digit.upper())}))


def _hex_digit(low: int, high: int) -> Expression:
    return _hex_digits((1 << high + 1) - (1 << low))


@lru_cache(maxsize=1024)
def _hex_range(low: int, high: int, digits: int = 4) -> Expression:
    """Hexadecimal numbers from `low` to `high`, with `digits` digits."""
    if digits == 1:
        return _hex_digit(low, high)
    rest = 4 * (digits - 1)
    unit = 1 << rest
    first, last = low >> rest, high >> rest
    if first == last:
        return concat(_hex_digit(first, first), _hex_range(low & (unit - 1), high & (unit - 1), digits - 1))
    parts = []
    if low & (unit - 1):
        parts.append(concat(_hex_digit(first, first), _hex_range(low & (unit - 1), unit - 1, digits - 1)))
        first += 1
    if (high + 1) & (unit - 1):
        parts.append(concat(_hex_digit(last, last), _hex_range(0, high & (unit - 1), digits - 1)))
        last -= 1
    if first <= last:
        parts.append(concat(_hex_digit(first, last), repeat(_hex_digit(0, 15), digits - 1, digits - 1)))
    return union(*parts)


def _unit(low: int, high: int) -> Expression:
    return concat(literal(b"\\u"), _hex_range(low, high))


def _pairs(low: int, high: int) -> Iterable[Expression]:
    """Surrogate pairs for the characters low..high, all above U+FFFF."""
    low, high = low - 0x10000, high - 0x10000
    while low <= high:
        lead, last = low >> 10, high >> 10
        if low & 0x3FF or last == lead:
            end = min(high, low | 0x3FF)
        else:
            end = high if high & 0x3FF == 0x3FF else (last << 10) - 1
        yield concat(
            _unit(0xD800 + lead, 0xD800 + (end >> 10)), _unit(0xDC00 + (low & 0x3FF), 0xDC00 + (end & 0x3FF))
        )
        low = end + 1


def escaped(low: int, high: int) -> list[Expression]:
    """The characters low..high as `\\uXXXX`, or as pairs of it; surrogates are omitted."""
    parts = []
    for first, last in ((low, min(high, 0xD7FF)), (max(low, 0xE000), min(high, 0xFFFF))):
        if first <= last:
            parts.append(_unit(first, last))
    return [*parts, *_pairs(max(low, 0x10000), high)]


def is_plain(byte: int) -> bool:
    """Whether an ASCII character is always written plainly."""
    return not _SPECIAL >> byte & 1


def spellings(byte: int) -> list[bytes]:
    """The ways to write one ASCII character in a plain body."""
    ways = [bytes((byte,))] if PLAIN_BYTES >> byte & 1 else []
    if byte in _SHORT:
        ways.append(b"\\" + _SHORT[byte].encode())
    if _WITH_UNITS >> byte & 1:
        ways += dict.fromkeys((b"\\u%04x" % byte, b"\\u%04X" % byte))
    return ways


@lru_cache(maxsize=1024)
def ascii_class(mask: int) -> Expression:
    """The ways to write one of the ASCII characters of `mask`: its `spellings`, in few expressions."""
    if not mask & _SPECIAL:
        return byte_class(mask)
    short = (1 << ord(name) for byte, name in _SHORT.items() if mask >> byte & 1)
    escapes = [concat(literal(b"\\"), byte_class(sum(short))), *_ascii_units(mask & _WITH_UNITS)]
    return union(byte_class(mask & PLAIN_BYTES), *escapes)


def _ascii_units(mask: int) -> Iterator[Expression]:
    """The ASCII characters of `mask` as `\\uXXXX`."""
    firsts: dict[int, int] = {}  # by the last digits that follow them
    for first in range(8):
        last = mask >> 16 * first & 0xFFFF
        firsts[last] = firsts.get(last, 0) | 1 << first
    for last, first in firsts.items():
        yield concat(literal(b"\\u00"), _hex_digits(first), _hex_digits(last))


_WITH_UNITS = ((1 << 0x80) - 1) & ~PLAIN_BYTES | 1 << 0x7F
"""The ASCII characters that can be written as `\\uXXXX`."""

_SPECIAL = _WITH_UNITS | 1 << 0x2F
"""The ASCII characters that can be written otherwise than plainly."""

_RAW = characters(((0x80, 0x10FFFF),))

ANY_CHARACTER = Frequent(
    union(
        byte_class(PLAIN_BYTES),
        _RAW,
        concat(literal(b"\\"), byte_class(sum(1 << ord(name) for name in _SHORT.values()))),
        *escaped(0, 0x10FFFF),
    )
)
"""One character in any form that RFC 8259 allows."""

RAW_CHARACTER = Frequent(union(ascii_class((1 << 0x80) - 1), _RAW))
PLAIN_CHARACTER = Frequent(union(RAW_CHARACTER, *escaped(0x80, 0x10FFFF)))
"""One character in any form of a plain body; a raw character beyond ASCII is never escaped."""

ANY_BODY = repeat(ANY_CHARACTER)
PLAIN_BODY = repeat(PLAIN_CHARACTER)
RAW_BODY = repeat(RAW_CHARACTER)


def quoted(body: Expression) -> Expression:
    """A body in quotes."""
    return concat(QUOTE, body, QUOTE)


STRING = quoted(ANY_BODY)


def _is_all_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and not ('"' in text or "\\" in text or "/" in text)


def body_of(text: str) -> Expression:
    """The plain bodies of one string; EMPTY if it has a lone surrogate, which UTF-8 cannot encode."""
    if _is_all_plain(text):
        return literal(text.encode())
    return concat(*map(_character, spend_on_each(text))) if is_encodable(text) else EMPTY


def is_encodable(text: str) -> bool:
    """Whether UTF-8 can encode a string: not if it contains a surrogate."""
    return text.isascii() or not any(0xD800 <= ord(character) < 0xE000 for character in text)


@lru_cache(maxsize=1024)
def _character(character: str) -> Expression:
    spend(4)
    code = ord(character)
    if code < 0x80:
        return ascii_class(1 << code)
    return union(literal(character.encode()), *escaped(code, code))


def quoted_key(text: str) -> Expression:
    """The texts of one key, quotes included; the key must be encodable."""
    return literal(b'"%b"' % text.encode()) if _is_all_plain(text) else quoted(body_of(text))


def bodies_of(texts: Collection[str]) -> Expression:
    """The plain bodies of some strings; many are grouped by common prefix."""
    return _grouped(sort(texts), 0)


def _grouped(texts: list[str], depth: int) -> Expression:
    """The plain bodies of some strings, given in order."""
    if len(texts) <= _MAX_UNGROUPED or depth >= _MAX_GROUPING_DEPTH:
        return union(*map(body_of, spend_on_each(texts, 2)))
    parts = [EPSILON] if not texts[0] else []
    for _, group in groupby(filter(None, spend_on_each(texts, 0.25)), key=lambda text: text[0]):
        same = list(group)
        start = _common_prefix(same[0], same[-1])
        rest = _grouped([text[len(start) :] for text in same], depth + 1)
        parts.append(concat(body_of(start), rest))
    return union(*parts)


def _common_prefix(one: str, other: str) -> str:
    """The longest common prefix of both strings."""
    for index, (a, b) in enumerate(zip(spend_on_each(one), other, strict=False)):
        if a != b:
            return one[:index]
    return min(one, other, key=len)
