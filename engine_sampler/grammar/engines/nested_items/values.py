"""Values of JSON as a matcher remembers them, such that equal values are equal in Python."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from ...errors import GrammarLimitError

Value: TypeAlias = "bytes | tuple[Value, ...] | frozenset[tuple[bytes, Value]]"
"""A scalar as `scalar_value` writes it, the items of an array, or the keys and values of an object."""

_MAX_EXPONENT_DIGITS = 1000
_MAX_PLAIN_ZEROS = 100
"""The most zeros that are written out at the end of a whole number."""

_QUOTE, _BACKSLASH = b'"'[0], b"\\"[0]
_LONGEST_ESCAPE = 12


def scalar_value(text: bytes) -> bytes:
    """A scalar, such that equal values have equal bytes: a quote and the characters of a string, a whole
    number in its digits, any other number as a whole number with an exponent, or a constant."""
    if text[0] == _QUOTE:
        return b'"' + json.loads(text).encode("utf-8", "surrogatepass")
    if text.isalpha():
        return text
    mantissa, _, exponent = text.lower().partition(b"e")
    if len(exponent) > _MAX_EXPONENT_DIGITS:
        raise GrammarLimitError(
            f"an item of an array has more than {_MAX_EXPONENT_DIGITS} digits of exponent"
        )
    whole, _, fraction = mantissa.lstrip(b"-").partition(b".")
    digits = (whole + fraction).lstrip(b"0")
    short = digits.rstrip(b"0")
    if not short:
        return b"0"
    power = int(exponent or b"0") - len(fraction) + len(digits) - len(short)
    sign = b"-" if text[:1] == b"-" else b""
    if 0 <= power <= _MAX_PLAIN_ZEROS:
        return sign + short + b"0" * power
    return b"%s%se%d" % (sign, short, power)


def prefix_of(text: bytes) -> bytes:
    """What the value of a string that begins with `text` begins with, as `scalar_value` writes it."""
    if _BACKSLASH not in text:
        return text
    for cut in range(_LONGEST_ESCAPE + 1):
        try:
            found = json.loads(text[: len(text) - cut] + b'"')
        except ValueError:
            continue
        if "\ud800" <= found[-1:] <= "\udbff":
            found = found[:-1]
        return b'"' + found.encode("utf-8", "surrogatepass")
    return b'"'


def is_partial(text: bytes) -> bool:
    """Whether a string ends within an escape, or with one that the next may complete."""
    try:
        json.loads(text + b'"')
    except ValueError:
        return _BACKSLASH in text
    return text[-_LONGEST_ESCAPE:].rfind(b"\\u") >= 0


@lru_cache(maxsize=16)
def ascending_scalars(values: frozenset[Value]) -> list[bytes]:
    """The scalars among values in order, those with a common beginning side by side."""
    return sorted(one for one in values if isinstance(one, bytes))


@lru_cache(maxsize=64)
def keys_of(objects: frozenset[Value]) -> frozenset[Value]:
    """The keys of objects."""
    return frozenset(key for one in objects if isinstance(one, frozenset) for key, _ in one)


@lru_cache(maxsize=64)
def members_of(objects: frozenset[Value], key: bytes) -> frozenset[Value]:
    """The values that objects have for a key."""
    return frozenset(
        value for one in objects if isinstance(one, frozenset) for name, value in one if name == key
    )


@lru_cache(maxsize=64)
def elements_of(arrays: frozenset[Value], index: int, others: frozenset[Value]) -> frozenset[Value]:
    """The items of arrays at an index, and other values."""
    found: Iterable[Value] = (one[index] for one in arrays if isinstance(one, tuple) and len(one) > index)
    return others.union(found) if arrays else others


@lru_cache(maxsize=64)
def of_kind(values: frozenset[Value], kind: type) -> frozenset[Value]:
    """The arrays (`tuple`) or the objects (`frozenset`) among values."""
    return frozenset(one for one in values if isinstance(one, kind))
