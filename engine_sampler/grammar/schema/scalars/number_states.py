"""What is known of a number while its digits are read and compared with the constants of a formula."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias


class NumberBound(NamedTuple):
    """The absolute value of a threshold: its digits in plain decimal form, in scientific form, and of its
    exponent."""

    whole: str
    fraction: str
    digits: str
    exponent: int
    scale: str


def bound_of(value: Decimal) -> NumberBound:
    """The digits of a threshold."""
    whole, _, fraction = f"{abs(value):f}".partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    exponent = value.adjusted()
    return NumberBound(whole, fraction, (whole + fraction).strip("0"), exponent, str(abs(exponent)))


def compare_digit(digit: str, digits: str, at: int) -> int:
    """The comparison (-1, 0, 1) of `digit` with digit number `at` of `digits`, padded with zeros."""
    other = digits[at] if at < len(digits) else "0"
    return (digit > other) - (digit < other)


NumberState = tuple[Any, ...]

START, MINUS, ZERO, INTEGRAL, POINT, FRACTION, E, E_SIGN, EXPONENT = range(9)


class NumberReading(NamedTuple):
    """The state of a number before its exponent.

    sign          1 or -1
    whole         number of digits of the whole part, saturated just past the longest bound
    plain         for each bound, the comparison of the digits so far with it, as a plain decimal
    fraction      number of digits after the point, saturated at the largest number that matters
    mantissa      the same comparisons if an exponent follows; None if an exponent is not allowed
    has_fraction  whether there is a digit other than 0 after the point
    zero          whether all digits are 0
    residues      for each divisor, (residue, pending zeros); None if it can no longer divide the number
    """

    sign: int
    whole: int = 0
    plain: tuple[int, ...] = ()
    fraction: int = 0
    mantissa: tuple[int, ...] | None = None
    has_fraction: bool = False
    zero: bool = True
    residues: tuple[tuple[int, int] | None, ...] = ()


class NumberScale(NamedTuple):
    """The state of a number from its exponent on: `size` digits read, and `exponent`, their comparisons."""

    sign: int
    mantissa: tuple[int, ...]
    has_fraction: bool
    zero: bool
    negative: bool = False
    size: int = 0
    exponent: tuple[int, ...] = ()


WholeSigns: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...] | None]"
"""`NumberReading.plain` and `NumberReading.mantissa`."""


class KnownNumber(NamedTuple):
    """What is known of a complete number.

    sign, zero     as in `NumberReading`
    signs          its comparison with the absolute value of each bound of its sign
    whole, strict  whether it is an integer, and one that has neither point nor exponent; None: not known
    divides        for each divisor, whether it is a multiple of it; () if none is known to be
    scaled         whether it has an exponent
    """

    sign: int
    zero: bool
    signs: tuple[int, ...]
    whole: bool | None
    strict: bool | None
    divides: tuple[bool, ...]
    scaled: bool


class NumberFacts(NamedTuple):
    """Properties of a complete number: its comparison with each threshold, and so on."""

    compared: dict[Decimal, int]
    whole: bool | None
    strictly_whole: bool | None
    divides: dict[Decimal, bool]
    is_zero: bool = False


def compare_exponent(known: NumberScale, status: int, exponent: int) -> int:
    """The comparison of the exponent read with that of a bound; `status` compares their digits."""
    if exponent and known.size < len(str(abs(exponent))):
        status = -1
    if not known.size:
        return (exponent < 0) - (exponent > 0)
    if known.negative:
        return -status if exponent < 0 else -1
    return 1 if exponent < 0 else status
