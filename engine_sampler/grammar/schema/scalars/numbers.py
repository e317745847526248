"""Sets of JSON numbers as expressions of their texts.

If only the type is constrained, all forms of RFC 8259 are accepted. If the value matters, a number is
a plain decimal (`-12.50`) or has exactly one digit, not 0, before its point and an exponent (`1.25e+01`);
zero may have any exponent. These forms are compared exactly by an automaton. A form for which an assertion
cannot be decided (`1.5e3` and `integer`, an exponent and `multipleOf`) is excluded.

Unless any form is asked for, the number of digits is bounded, and an integer has neither point nor exponent.
The bound is wider where the constants of a formula need it, so it never leaves a formula without a number.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Any

from ....base.errors import quoted
from ...errors import GrammarError, GrammarLimitError
from ...program.expression import (
    EMPTY,
    Expression,
    Frequent,
    both,
    byte_class,
    byte_range,
    concat,
    literal,
    optional,
    repeat,
    union,
)
from ...work import sort, spend_on_each
from ..formula import (
    AND,
    INTEGER,
    LESS,
    MULTIPLE,
    NOT,
    OR,
    TRUE,
    WITHIN,
    Formula,
    cached_if_small,
    conjunction,
    disjunction,
    weight,
)
from ..limits import MAX_DIGITS
from .divisibility import with_few_residues
from .number_automaton import NumberAutomaton, digits_of
from .texts import bodies_of

_DIGIT = byte_range(0x30, 0x39)
_MINUS = optional(literal(b"-"))
_WHOLE = union(literal(b"0"), concat(byte_range(0x31, 0x39), repeat(_DIGIT)))
_E = byte_class(1 << ord("e") | 1 << ord("E"))
_SIGN = optional(byte_class(1 << ord("+") | 1 << ord("-")))
_ZEROS = optional(concat(literal(b"."), repeat(literal(b"0"), 1)))

NUMBER = Frequent(
    concat(
        _MINUS,
        _WHOLE,
        optional(concat(literal(b"."), repeat(_DIGIT, 1))),
        optional(concat(_E, _SIGN, repeat(_DIGIT, 1))),
    )
)
WHOLE_NUMBER = Frequent(
    concat(_MINUS, _WHOLE, _ZEROS, optional(concat(_E, optional(literal(b"+")), repeat(_DIGIT, 1))))
)
"""Numbers whose value is an integer: `2`, `2.0`, `2e3`."""

PLAIN_INTEGER = Frequent(concat(_MINUS, _WHOLE))

_MAX_LISTED = 200
"""Maximum length of a range of whole numbers that are listed one by one."""

_MAX_EXPONENT_CONSTANTS = 16
"""Maximum number of constants that may be written with an exponent."""

_FIXED = {TRUE: NUMBER, (INTEGER, False): WHOLE_NUMBER, (INTEGER, True): PLAIN_INTEGER}

_MAX_EXPONENT_DIGITS = 3
"""Maximum number of digits of an exponent where digits are bounded: enough for every float."""


@lru_cache(maxsize=16)
def any_number(digits: int | None) -> Expression:
    """All numbers; `digits` bounds those before the point, and those after it."""
    return NUMBER if digits is None else Frequent(_bounded(digits, digits, min(digits, _MAX_EXPONENT_DIGITS)))


@lru_cache(maxsize=16)
def any_integer(digits: int | None) -> Expression:
    """All integers: in all forms, or plainly if their digits are bounded."""
    return WHOLE_NUMBER if digits is None else Frequent(concat(_MINUS, _whole(digits)))


def _whole(digits: int) -> Expression:
    return union(literal(b"0"), concat(byte_range(0x31, 0x39), repeat(_DIGIT, 0, digits - 1)))


def _bounded(whole: int, fraction: int, exponent: int) -> Expression:
    """Numbers of up to so many digits before the point, after it, and in the exponent."""
    return concat(
        _MINUS,
        _whole(whole),
        optional(concat(literal(b"."), repeat(_DIGIT, 1, fraction))),
        optional(concat(_E, _SIGN, repeat(_DIGIT, 1, exponent))),
    )


def decimal(value: Any, keyword: str) -> Decimal:
    """A number of a schema, exactly.

    Raises GrammarError for anything else, GrammarLimitError for a number with too many digits.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise GrammarError(f"{keyword} must be a number, not {quoted(value)}")
    if isinstance(value, int) and value.bit_length() > 4 * MAX_DIGITS:
        raise GrammarLimitError(f"{keyword} has more than {MAX_DIGITS} digits")
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise GrammarError(f"{keyword} must be a finite number, not {quoted(value)}")
    if (number and not -MAX_DIGITS <= number.adjusted() <= MAX_DIGITS) or len(
        number.as_tuple().digits
    ) > MAX_DIGITS:
        raise GrammarLimitError(f"{keyword} has more than {MAX_DIGITS} digits")
    return number


def number_set(formula: Formula, digits: int | None = None) -> Expression:
    """The texts of the numbers that a formula allows; `expression.EMPTY` if there are none.

    digits  bounds those before the point and those after it, and integers are plain; None: all forms

    Raises GrammarLimitError or UnsupportedKeywordError if the automaton would be too large.
    """
    if digits is None:
        return _number_set(formula)
    if formula == TRUE:
        return any_number(digits)
    if formula in _FIXED:
        return any_integer(digits)
    if formula[0] == WITHIN and len(formula[1]) > _MAX_EXPONENT_CONSTANTS:
        return plain_numbers(sort(formula[1]), digits)
    return _bounded_set(_with_plain_integers(formula), digits)


@cached_if_small
def _number_set(formula: Formula) -> Expression:
    found = _FIXED.get(formula)
    if found is not None:
        return found
    formula = _simplified(formula)
    if formula[0] == WITHIN and len(formula[1]) > _MAX_EXPONENT_CONSTANTS:
        return plain_numbers(sort(formula[1]))
    return NumberAutomaton(formula).expression()


@cached_if_small
def _unsigned_set(formula: Formula) -> Expression:
    """Numbers that are at least 0, without the sign of -0."""
    return NumberAutomaton(_simplified(formula), signed=False).expression()


def _simplified(formula: Formula) -> Formula:
    """An equivalent formula with fewer constants, or residues."""
    atoms = formula[1] if formula[0] == AND else (formula,)
    return with_few_residues(_filtered(formula), _bounds(atoms), _is_true)


def _may_be_negative(formula: Formula) -> bool:
    lows = _bounds(formula[1])[0] if formula[0] == AND else _bounds((formula,))[0]
    return not lows or max(lows) < 0


def _bounded_set(formula: Formula, digits: int) -> Expression:
    """The numbers of a formula that have no more digits than it needs, or than are allowed."""
    is_negative = _may_be_negative(formula)
    numbers = (_number_set if is_negative else _unsigned_set)(formula)
    if numbers == EMPTY:
        return EMPTY
    whole, fraction = digits_of(formula)
    if formula[0] == AND and (INTEGER, True) in formula[1]:
        bounds = _bounds(formula[1])
        return numbers if all(bounds) else both(numbers, any_integer(max(digits, whole)))
    exponent = min(digits, _MAX_EXPONENT_DIGITS)
    return both(numbers, _bounded(max(digits, whole), max(digits, fraction), exponent))


def _with_plain_integers(formula: Formula) -> Formula:
    """The formula with integers that have neither point nor exponent."""
    kind = formula[0]
    if kind == INTEGER:
        return (INTEGER, True)
    if kind == NOT:
        return (NOT, _with_plain_integers(formula[1]))
    if kind in (AND, OR):
        parts = [_with_plain_integers(part) for part in spend_on_each(formula[1])]
        return conjunction(parts) if kind == AND else disjunction(parts)
    return formula


def _filtered(formula: Formula) -> Formula:
    """An equivalent formula without the constants that other assertions rule out."""
    if formula[0] != AND:
        return formula
    values = [part[1] for part in formula[1] if part[0] == WITHIN]
    rest = [part for part in formula[1] if part[0] != WITHIN]
    if not values or (INTEGER, True) in rest or len(formula[1]) < 2:
        return formula
    common = spend_on_each(frozenset.intersection(*values), 4 * len(rest))
    return (WITHIN, frozenset(value for value in common if all(_is_true(part, value) for part in rest)))


def whole_numbers(formulas: Iterable[Formula]) -> list[Decimal] | None:
    """The numbers that satisfy all formulas; None unless these are whole numbers in a short range."""
    formula = conjunction(formulas)
    atoms = formula[1] if formula[0] == AND else (formula,)
    lows, highs = _bounds(atoms)
    if not any(atom[0] == INTEGER for atom in atoms) or not lows or not highs:
        return None
    low, high = floor(max(lows)), ceil(min(highs))
    if high - low > _MAX_LISTED:
        return None
    numbers = spend_on_each(map(Decimal, range(low, high + 1)), 4 * weight(formula))
    return [number for number in numbers if _is_true(formula, number)]


def _bounds(atoms: Iterable[Formula]) -> tuple[list[Decimal], list[Decimal]]:
    """The lower and the upper bounds among assertions."""
    lows = [atom[1][1] for atom in atoms if atom[0] == NOT and atom[1][0] == LESS]
    return lows, [atom[1] for atom in atoms if atom[0] == LESS]


def _is_true(formula: Formula, value: Decimal) -> bool:
    kind = formula[0]
    if kind == AND:
        return all(_is_true(part, value) for part in formula[1])
    if kind == OR:
        return any(_is_true(part, value) for part in formula[1])
    if kind == NOT:
        return not _is_true(formula[1], value)
    if kind == LESS:
        return value < formula[1] or (bool(formula[2]) and value == formula[1])
    if kind == WITHIN:
        return value in formula[1]
    return Fraction(value) % Fraction(formula[1] if kind == MULTIPLE else 1) == 0


def _plain_text(value: Decimal) -> str:
    """A number as a decimal without needless zeros."""
    text = f"{value:f}"
    return text.rstrip("0").removesuffix(".") if "." in text else text


def plain_numbers(values: list[Decimal], digits: int | None = None) -> Expression:
    """Constants, as plain decimals with trailing zeros after the point: up to `digits` of them, or any
    number."""
    zeros = optional(concat(literal(b"."), repeat(literal(b"0"), 1, digits)))
    texts = sort([_plain_text(value) for value in spend_on_each(values, 2) if value])
    whole = [text for text in texts if "." not in text]
    fractional = [text for text in texts if "." in text]
    zero = [concat(_MINUS, literal(b"0"), zeros)] if len(texts) < len(values) else []
    trailing = repeat(literal(b"0"), 0, digits)
    return union(*zero, concat(bodies_of(whole), zeros), concat(bodies_of(fractional), trailing))
