"""Scalars of JSON as matchers remember them, such that equal values have equal bytes."""

from __future__ import annotations

import json
from bisect import bisect_left

from ..errors import GrammarLimitError

_MAX_EXPONENT_DIGITS = 1000
_MAX_PLAIN_ZEROS = 100
"""The most zeros that are written out at the end of a whole number."""

QUOTE, BACKSLASH = b'"'[0], b"\\"[0]
SPACE = b" \t\r\n"
_LONGEST_ESCAPE = 12


def scalar_value(text: bytes) -> bytes:
    """A scalar, such that equal values have equal bytes: a quote and the characters of a string, a whole
    number in its digits, any other number as a whole number with an exponent, or a constant."""
    if text[0] == QUOTE:
        if BACKSLASH not in text:
            return text[:-1]
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
    if BACKSLASH not in text:
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
        return BACKSLASH in text
    return text[-_LONGEST_ESCAPE:].rfind(b"\\u") >= 0


def may_become_one_of(text: bytes, ascending: list[bytes]) -> bool:
    """Whether a scalar that begins with `text` may become equal to one of those in ascending order."""
    if text[0] == QUOTE:
        text = prefix_of(text)
    elif not text.isdigit() and not text.isalpha():
        return True
    at = bisect_left(ascending, text)
    return at < len(ascending) and ascending[at].startswith(text)
