"""Formulas about the divisors of a number with fewer residues: as a list of the numbers, where these are few,
or about no more of each prime than matters.

Whether a multiple of some unit satisfies assertions about divisors depends only on how often each prime
divides it, up to the largest power in a divisor. So they can be said anew for each combination of these, in
which a prime is left out where it makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import ceil, floor, gcd, lcm, prod
from typing import NamedTuple, TypeAlias

from ...work import spend, spend_on_each
from ..formula import AND, INTEGER, MULTIPLE, NOT, OR, WITHIN, Formula, conjunction, disjunction, weight
from ..limits import MAX_NUMBER_STATES

_MANY_RESIDUES = 5_000
"""The number of residues from which on a formula is simplified."""

_MAX_LISTED = 2_000
"""Maximum number of multiples that are tried one by one."""

_MAX_DIVISOR = 1_000_000
"""Maximum divisor, in units, of which the primes are searched."""

_MAX_CLASSES = 1_024
"""Maximum number of combinations of primes."""

Bounds: TypeAlias = "tuple[list[Decimal], list[Decimal]]"

_Ranges: TypeAlias = "tuple[tuple[int, int], ...]"
"""For each prime, how often it divides at least, and at most."""


def with_few_residues(
    formula: Formula, bounds: Bounds, is_true: Callable[[Formula, Decimal], bool]
) -> Formula:
    """An equivalent formula that an automaton reads in fewer states, or the same one.

    bounds   the lower and the upper ones that are among its assertions
    is_true  whether a number satisfies a formula
    """
    values = [value for value in _divisors(formula) if value > 0]
    if len(values) < 2:
        return formula
    unit = Fraction(1, lcm(*(Fraction(value).denominator for value in values)))
    sizes = [int(Fraction(value) / unit) for value in values]
    if max(sizes) > _MAX_DIVISOR or lcm(*sizes) <= _MANY_RESIDUES:
        return formula
    listed = _listed(formula, bounds, is_true)
    return _by_primes(formula, unit, sizes) if listed is None else listed


def _divisors(formula: Formula) -> list[Decimal]:
    """The different divisors in a formula."""
    divisors: dict[Decimal, None] = {}
    waiting = [formula]
    while waiting:
        part = waiting.pop()
        spend()
        if part[0] in (AND, OR):
            waiting += part[1]
        elif part[0] == NOT:
            waiting.append(part[1])
        elif part[0] == MULTIPLE:
            divisors[part[1]] = None
    return list(divisors)


def _common(formula: Formula) -> Fraction | None:
    """A number of which all numbers that satisfy the formula are multiples; None if it is not obvious."""
    spend()
    if formula[0] == MULTIPLE:
        return Fraction(formula[1])
    if formula[0] == INTEGER:
        return Fraction(1)
    if formula[0] not in (AND, OR):
        return None
    found = [_common(part) for part in formula[1]]
    known = [one for one in found if one is not None]
    if not known or (formula[0] == OR and len(known) < len(found)):
        return None
    scale = lcm(*(one.denominator for one in known))
    combine = lcm if formula[0] == AND else gcd
    return Fraction(combine(*(int(one * scale) for one in known)), scale)


def _listed(formula: Formula, bounds: Bounds, is_true: Callable[[Formula, Decimal], bool]) -> Formula | None:
    """The numbers one by one, if they are few."""
    lows, highs = bounds
    step = _common(formula)
    if step is None or not lows or not highs:
        return None
    first, last = ceil(Fraction(max(lows)) / step), floor(Fraction(min(highs)) / step)
    if last - first >= _MAX_LISTED:
        return None
    numbers = spend_on_each(range(first, last + 1), 4 * weight(formula))
    candidates = (_decimal(number * step) for number in numbers)
    return (WITHIN, frozenset(value for value in candidates if is_true(formula, value)))


def _decimal(value: Fraction) -> Decimal:
    """A fraction whose denominator has no prime but 2 and 5, exactly."""
    places = 0
    while value.denominator > 1:
        value, places = value * 10, places + 1
    return Decimal(value.numerator).scaleb(-places)


class _Primes(NamedTuple):
    """Primes, how often each matters at most, and the unit."""

    primes: tuple[int, ...]
    most: tuple[int, ...]
    unit: Fraction

    def times(self, value: Decimal) -> tuple[int, ...]:
        """How often each prime divides a number of units."""
        return tuple(_times(prime, int(Fraction(value) / self.unit)) for prime in self.primes)

    def multiple_of(self, number: int) -> Formula:
        """The multiples of a number of units."""
        return (MULTIPLE, _decimal(number * self.unit))


def _by_primes(formula: Formula, unit: Fraction, sizes: list[int]) -> Formula:
    """The formula with its assertions about divisors by the primes that matter, if it has such."""
    parts = formula[1] if formula[0] == AND else (formula,)
    about = [part for part in parts if _is_about_divisors(part)]
    if _common(conjunction(about)) is None:
        return formula
    primes = sorted({prime for size in sizes for prime in _primes_of(size)})
    most = tuple(max(_times(prime, size) for size in sizes) for prime in primes)
    if prod(exponent + 1 for exponent in most) > _MAX_CLASSES:
        return formula
    known = _Primes(tuple(primes), most, unit)
    needed = {value: known.times(value) for value in _divisors(conjunction(about))}
    rest = [part for part in parts if not _is_about_divisors(part)]
    allowed = {
        powers
        for powers in spend_on_each(product(*(range(exponent + 1) for exponent in most)), 4 * weight(formula))
        if _holds(conjunction(about), powers, needed)
    }
    said = _said(allowed, known)
    return formula if said is None else conjunction([*rest, said])


def _is_about_divisors(formula: Formula) -> bool:
    """Whether a formula has no assertions but those about divisors."""
    if formula[0] in (AND, OR):
        return all(map(_is_about_divisors, spend_on_each(formula[1])))
    return bool(formula[0] == MULTIPLE or (formula[0] == NOT and formula[1][0] == MULTIPLE))


def _holds(formula: Formula, powers: tuple[int, ...], needed: dict[Decimal, tuple[int, ...]]) -> bool:
    """Whether a number that primes divide so often satisfies the formula."""
    if formula[0] in (AND, OR):
        spend(len(formula[1]))
        return (all if formula[0] == AND else any)(_holds(part, powers, needed) for part in formula[1])
    if formula[0] == NOT:
        return not _holds(formula[1], powers, needed)
    return all(least <= power for least, power in zip(needed[formula[1]], powers, strict=True))


def _said(allowed: set[tuple[int, ...]], known: _Primes) -> Formula | None:
    """The numbers that primes divide as often as one of the allowed combinations says; None if that takes too
    many residues."""
    if not allowed:
        return disjunction(())
    most: list[int] = []
    for number in range(len(known.primes)):
        allowed, last = _saturated(allowed, number, known.most[number])
        most.append(last)
    if prod(prime**last for prime, last in zip(known.primes, most, strict=True)) > MAX_NUMBER_STATES:
        return None
    least = [min(powers[number] for powers in allowed) for number in range(len(most))]
    factor = prod(prime**power for prime, power in zip(known.primes, least, strict=True))
    ways = [_way(ranges, least, most, known, factor) for ranges in _merged(allowed)]
    return conjunction([known.multiple_of(factor), disjunction(ways)])


def _merged(allowed: set[tuple[int, ...]]) -> list[_Ranges]:
    """The combinations, with those together that differ in how often one prime divides alone."""
    merged: list[_Ranges] = [tuple((power, power) for power in powers) for powers in sorted(allowed)]
    for number in range(len(merged[0])):
        alike: dict[_Ranges, list[tuple[int, int]]] = {}
        for ranges in spend_on_each(merged):
            known = alike.setdefault((*ranges[:number], *ranges[number + 1 :]), [])
            low, high = ranges[number]
            if known and known[-1][1] == low - 1:
                known[-1] = known[-1][0], high
            else:
                known.append((low, high))
        merged = [
            (*others[:number], one, *others[number:]) for others, known in alike.items() for one in known
        ]
    return merged


def _saturated(allowed: set[tuple[int, ...]], number: int, most: int) -> tuple[set[tuple[int, ...]], int]:
    """The combinations in which a prime counts no further than it matters, and how far that is."""
    while most:
        spend(len(allowed))
        with_most = {powers for powers in allowed if powers[number] == most}
        below = {powers for powers in allowed if powers[number] == most - 1}
        if {_with(powers, number, most) for powers in below} != with_most:
            break
        allowed, most = allowed - with_most, most - 1
    return allowed, most


def _with(powers: tuple[int, ...], number: int, power: int) -> tuple[int, ...]:
    return (*powers[:number], power, *powers[number + 1 :])


def _way(ranges: _Ranges, least: list[int], most: list[int], known: _Primes, factor: int) -> Formula:
    """The multiples of `factor` units that each prime divides as often as its range says; the largest number
    of times that matters also stands for all above."""
    parts: list[Formula] = []
    for prime, (low, high), first, last in zip(known.primes, ranges, least, most, strict=True):
        if low > first:
            parts.append(known.multiple_of(factor * prime ** (low - first)))
        if high < last:
            parts.append((NOT, known.multiple_of(factor * prime ** (high - first + 1))))
    return conjunction(parts)


def _primes_of(number: int) -> Iterable[int]:
    """The primes that divide a number."""
    prime = 2
    while prime * prime <= number:
        spend()
        if number % prime == 0:
            yield prime
            while number % prime == 0:
                number //= prime
        prime += 1
    if number > 1:
        yield number


def _times(prime: int, number: int) -> int:
    """How often a prime divides a number."""
    found = 0
    while number % prime == 0:
        number, found = number // prime, found + 1
    return found
