"""Strings as JSON text writes them: which bytes stand for which characters.

A **body** is what stands between the quotes. Where nothing is asked of a string, every body of RFC 8259
is meant (`ANY_BODY`; UTF-8 is valid and surrogates come in pairs). Where its characters matter (keys,
constants, patterns, formats), printable ASCII characters are written plainly, all others also as
`\\uXXXX` with digits of either case, and characters that have a short escape with that too: `PLAIN_BODY`
has all such bodies, one or more for every string, and expressions for sets of strings are subsets of it.
So complements within it are exact, and `"\\u0061"` cannot pass for a key that differs from `"a"`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

from ..program.expression import EMPTY, EPSILON, Expression, byte_class, concat, literal, repeat, union
from ..program.unicode import characters

QUOTE = literal(b'"')
WHITESPACE = byte_class(1 << 0x20 | 1 << 0x09 | 1 << 0x0A | 1 << 0x0D)

PLAIN_BYTES = ((1 << 0x80) - (1 << 0x20)) & ~(1 << 0x22) & ~(1 << 0x5C)
"""The ASCII characters that may stand for themselves."""

_FEW = 32
_GROUPING_DEPTH = 50

_SHORT = {0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x2F: "/", 0x5C: "\\"}


def _hex_digit(low: int, high: int) -> Expression:
    digits = "0123456789abcdef"[low : high + 1]
    return byte_class(sum({1 << ord(digit) for digit in digits + digits.upper()}))


@lru_cache(maxsize=1024)
def _hex_range(low: int, high: int, digits: int = 4) -> Expression:
    """Hexadecimal numbers of `digits` digits from `low` to `high`."""
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
    """Surrogate pairs for the characters low..high, which are above U+FFFF."""
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
    """The characters low..high as `\\uXXXX`, or as pairs of that; surrogates are left out."""
    parts = []
    for first, last in ((low, min(high, 0xD7FF)), (max(low, 0xE000), min(high, 0xFFFF))):
        if first <= last:
            parts.append(_unit(first, last))
    return [*parts, *_pairs(max(low, 0x10000), high)]


def safe(byte: int) -> bool:
    """Whether an ASCII character is written plainly and in no other way."""
    return not _SPECIAL >> byte & 1


def spellings(byte: int) -> list[bytes]:
    """The ways to write one ASCII character in a plain body."""
    ways = [bytes((byte,))] if PLAIN_BYTES >> byte & 1 else []
    if byte in _SHORT:
        ways.append(b"\\" + _SHORT[byte].encode())
    if not 0x20 <= byte < 0x7F or byte in (0x22, 0x5C):
        ways += dict.fromkeys((b"\\u%04x" % byte, b"\\u%04X" % byte))
    return ways


@lru_cache(maxsize=128)
def _ascii_byte(byte: int) -> Expression:
    return union(*map(literal, spellings(byte)))


@lru_cache(maxsize=1024)
def ascii_class(mask: int) -> Expression:
    """The ways to write one of the ASCII characters of `mask`."""
    special = mask & _SPECIAL
    if not special:
        return byte_class(mask)
    ways = [_ascii_byte(byte) for byte in range(0x80) if special >> byte & 1]
    return union(byte_class(mask & PLAIN_BYTES), *ways)


_SPECIAL = ((1 << 0x80) - 1) & ~PLAIN_BYTES | 1 << 0x2F | 1 << 0x7F
"""The ASCII characters that can be written in another way than plainly."""

_RAW = characters(((0x80, 0x10FFFF),))

ANY_CHARACTER = union(
    byte_class(PLAIN_BYTES),
    _RAW,
    concat(literal(b"\\"), byte_class(sum(1 << ord(name) for name in _SHORT.values()))),
    *escaped(0, 0x10FFFF),
)
"""One character in any form that RFC 8259 allows."""

RAW_CHARACTER = union(ascii_class((1 << 0x80) - 1), _RAW)
PLAIN_CHARACTER = union(RAW_CHARACTER, *escaped(0x80, 0x10FFFF))
"""One character in any form that a plain body has; raw ones have no escapes beyond ASCII."""

ANY_BODY = repeat(ANY_CHARACTER)
PLAIN_BODY = repeat(PLAIN_CHARACTER)
RAW_BODY = repeat(RAW_CHARACTER)


def quoted(body: Expression) -> Expression:
    """A body between its quotes."""
    return concat(QUOTE, body, QUOTE)


STRING = quoted(ANY_BODY)


def body_of(text: str) -> Expression:
    """The plain bodies of one string; EMPTY for one with a lone surrogate, which UTF-8 cannot say."""
    if text.isascii() and text.isprintable() and not ('"' in text or "\\" in text or "/" in text):
        return literal(text.encode())
    return concat(*map(_character, text)) if can_be_written(text) else EMPTY


def can_be_written(text: str) -> bool:
    """Whether UTF-8 can say a string: not if there is a surrogate in it."""
    return text.isascii() or not any(0xD800 <= ord(character) < 0xE000 for character in text)


def _character(character: str) -> Expression:
    code = ord(character)
    if code < 0x80:
        return _ascii_byte(code)
    return union(literal(character.encode()), *escaped(code, code))


def key(text: str) -> Expression:
    """The texts of one key, which can be written, with its quotes."""
    return quoted(body_of(text))


def one_of(texts: list[str], depth: int = 0) -> Expression:
    """The plain bodies of some strings, which are sorted; many are told apart by how they begin."""
    if len(texts) <= _FEW or depth >= _GROUPING_DEPTH:
        return union(*map(body_of, texts))
    parts = [EPSILON] if not texts[0] else []
    for _, group in groupby(filter(None, texts), key=lambda text: text[0]):
        same = list(group)
        start = _shared(same[0], same[-1])
        rest = one_of([text[len(start) :] for text in same], depth + 1)
        parts.append(concat(body_of(start), rest))
    return union(*parts)


def _shared(one: str, other: str) -> str:
    """How both texts begin."""
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return one[:at]
    return min(one, other, key=len)
