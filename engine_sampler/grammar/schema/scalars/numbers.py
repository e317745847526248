"""Sets of JSON numbers as expressions of their texts.

If only the type is constrained, all forms of RFC 8259 are accepted. If the value matters, a number is
a plain decimal (`-12.50`) or has exactly one digit, not 0, before its point and an exponent (`1.25e+01`);
zero may have any exponent. These forms are compared exactly by an automaton. A form for which an assertion
cannot be decided (`1.5e3` and `integer`, an exponent and `multipleOf`) is excluded.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Any

from ....base.errors import quoted
from ...errors import GrammarError, GrammarLimitError
from ...program.expression import (
    Expression,
    Frequent,
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
    weight,
)
from ..limits import MAX_DIGITS
from .number_automaton import NumberAutomaton
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


@cached_if_small
def number_set(formula: Formula) -> Expression:
    """The texts of the numbers that a formula allows; `expression.EMPTY` if there are none.

    Raises GrammarLimitError or UnsupportedKeywordError if the automaton would be too large.
    """
    found = _FIXED.get(formula)
    if found is not None:
        return found
    if formula[0] == AND:
        formula = _filtered(formula)
    if formula[0] == WITHIN and len(formula[1]) > _MAX_EXPONENT_CONSTANTS:
        return plain_numbers(sort(formula[1]))
    return NumberAutomaton(formula).expression()


def _filtered(formula: Formula) -> Formula:
    """An equivalent formula without the constants that other assertions rule out."""
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
    lows = [atom[1][1] for atom in atoms if atom[0] == NOT and atom[1][0] == LESS]
    highs = [atom[1] for atom in atoms if atom[0] == LESS]
    if not any(atom[0] == INTEGER for atom in atoms) or not lows or not highs:
        return None
    low, high = floor(max(lows)), ceil(min(highs))
    if high - low > _MAX_LISTED:
        return None
    numbers = spend_on_each(map(Decimal, range(low, high + 1)), 4 * weight(formula))
    return [number for number in numbers if _is_true(formula, number)]


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


def plain_numbers(values: list[Decimal]) -> Expression:
    """Constants, as plain decimals with any number of trailing zeros after the point."""
    texts = sort([f"{value.normalize():f}" for value in spend_on_each(values, 2) if value])
    whole = [text for text in texts if "." not in text]
    fractional = [text for text in texts if "." in text]
    zero = [concat(_MINUS, literal(b"0"), _ZEROS)] if len(texts) < len(values) else []
    return union(
        *zero, concat(bodies_of(whole), _ZEROS), concat(bodies_of(fractional), repeat(literal(b"0")))
    )
