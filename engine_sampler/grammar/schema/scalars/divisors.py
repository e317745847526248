"""The divisors of numbers, and what the digits of a number leave of them."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple, TypeAlias

from ...errors import GrammarError, UnsupportedKeywordError
from ..limits import MAX_NUMBER_STATES

Residue: TypeAlias = "tuple[int, int] | None"
"""What the digits so far leave of a divisor, and how many zeros are pending; None: it is not a divisor."""


class Divisor(NamedTuple):
    """A divisor: `factor` times 10 ** `zeros`; the factor is not a multiple of 10."""

    factor: int
    zeros: int


def divisor_of(value: Decimal) -> Divisor:
    """The divisor of a `multipleOf`. Raises GrammarError if it is not positive, UnsupportedKeywordError if it
    has too many residues."""
    _, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits))
    short = text.rstrip("0")
    factor = int(short or "0")
    if not isinstance(exponent, int) or value <= 0:
        raise GrammarError("multipleOf must be greater than 0")
    zeros = exponent + len(text) - len(short)
    if factor * (abs(zeros) + 1) > MAX_NUMBER_STATES:
        raise UnsupportedKeywordError(f"multipleOf {value} is not supported: it has too many residues")
    return Divisor(factor, zeros)


def whole_residue(residue: tuple[int, int] | None, divisor: Divisor, digit: str) -> tuple[int, int] | None:
    """Trailing zeros, up to as many as the divisor has, are pending: they are not part of the residue."""
    if residue is None:
        return None
    known, pending = residue
    factor = divisor.factor
    if digit == "0":
        if pending < divisor.zeros:
            return known, pending + 1
        return known * 10 % factor, pending
    return (known * 10 ** (pending + 1) + int(digit)) % factor, 0


def fraction_residue(
    residue: tuple[int, int] | None, divisor: Divisor, digit: str, at: int
) -> tuple[int, int] | None:
    """What a digit after the point, number `at`, leaves."""
    if residue is None or at < -divisor.zeros:
        return None if residue is None else ((residue[0] * 10 + int(digit)) % divisor.factor, residue[1])
    return residue if digit == "0" else None


def is_multiple(residue: tuple[int, int] | None, divisor: Divisor, places: int) -> bool:
    """Whether a number can end here as a multiple, after so many digits behind the point."""
    if residue is None:
        return False
    if divisor.zeros > 0:
        return residue[0] == 0 and residue[1] == divisor.zeros
    missing = max(0, -divisor.zeros - places)
    return residue[0] * 10**missing % divisor.factor == 0
