"""The arrays that satisfy the assertions of one disjunct."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias

from ..program.rules import MAX_UNIQUE_ITEMS
from ..work import sort, spend_on_each
from .arrays import ArrayShape, Counted, Literals
from .formula import (
    AND,
    COUNT,
    FALSE,
    FROM,
    INTEGER,
    ITEM,
    LENGTH,
    LESS,
    NEVER,
    NOT,
    SIZE,
    TRUE,
    UNIQUE,
    WITHIN,
    Formula,
    conjunction,
)
from .nodes import Expander
from .outlines import (
    ARRAY,
    FALSEHOOD,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    TRUTH,
    outline_intersection,
    possible_kinds,
)
from .scalars.numbers import whole_numbers
from .scalars.strings import holds

Bounds: TypeAlias = "tuple[int, int | None]"
"""At least, and at most; None: any number."""

_MAX_DISTINCT = 1000
"""Maximum number of constants that are listed as the items of an array without duplicates, ..."""

_FEW_DISTINCT = 50
"""... and from which on a matcher remembers them instead, if it can: that takes less for each item, ..."""

_MAX_REPEATED = 200
"""... and of an array that must have some."""

_TOO_FEW = 'there may be fewer different items than minItems asks for; unsupported="warn" goes on without it'
_REPEATED = "an array that must repeat an item can be required of a short list of constants only"


def array_shapes(atoms: Iterable[Formula], expander: Expander) -> list[ArrayShape]:
    """The arrays that satisfy all the assertions; several shapes if two items are required to be equal."""
    shape = ArrayShape(impossible=expander.impossible)
    counts: dict[tuple[int, int], tuple[int, int | None]] = {}
    unique: bool | None = None
    for atom in spend_on_each(atoms):
        kind = atom[0]
        if kind == ITEM:
            shape.items.append(atom[1:])
        elif kind == FROM:
            shape.rest.append(atom[1:])
        elif kind == COUNT:
            counts[atom[1:3]] = _intersection(atom[3:], counts.get(atom[1:3], (0, None)))
        elif kind == SIZE:
            shape.low, shape.high = _intersection(atom[1:], (shape.low, shape.high))
        elif kind == UNIQUE:
            if unique not in (None, atom[1]):
                return []
            unique = atom[1]
    if any(high is not None and low > high for low, high in ((shape.low, shape.high), *counts.values())):
        return []
    for (start, literal), (low, high) in counts.items():
        if high == 0:
            shape.rest.append((start, literal ^ 1))
        else:
            shape.counts.append(Counted(start, literal, low, high))
    if unique is None or (unique and shape.high is not None and shape.high <= 1):
        return [shape]
    constants = _constants(shape, expander, unique)
    many = constants is None or len(constants) > _FEW_DISTINCT
    if unique and many and _can_be_remembered(shape, expander):
        shape.remembers = True
        if not shape.counts:  # listed states would have to count so far
            shape.high = min(shape.high or MAX_UNIQUE_ITEMS, MAX_UNIQUE_ITEMS)
        return [shape]
    if constants is None:
        expander.unsupported("uniqueItems", _TOO_FEW if unique else _REPEATED)
        return [shape] if unique else []
    if unique:
        shape.distinct = constants or None
        return [shape]
    return [_with_count(shape, Counted(0, literal, 2, None)) for literal in constants]


def _intersection(one: Bounds, other: Bounds) -> Bounds:
    highs = [high for _, high in (one, other) if high is not None]
    return max(one[0], other[0]), min(highs, default=None)


def _with_count(shape: ArrayShape, count: Counted) -> ArrayShape:
    return replace(shape, counts=[*shape.counts, count])


def _constants(shape: ArrayShape, expander: Expander, unique: bool) -> tuple[int, ...] | None:
    """The literals of all constants that an item can be, except those of `unlike` items, which are found if
    `unique`; None if there are too many to list."""
    literals: dict[int, None] = {}
    last = shape.prefix if shape.high is None else min(shape.prefix, shape.high - 1)
    if unique:
        shape.unlike = _unlike(shape, expander, last)
    for index in spend_on_each(range(last + 1), 10):
        if index in shape.unlike:
            continue
        values = _finite(shape.literals(index), expander)
        if values is None or len(literals) + len(values) > (_MAX_DISTINCT if unique else _MAX_REPEATED):
            return None
        literals.update((expander.scalar(value), None) for value in _in_order(values))
    return tuple(literals)


def _can_be_remembered(shape: ArrayShape, expander: Expander) -> bool:
    """Whether a matcher can remember the items: an array of different ones always finds enough of them."""
    if shape.low > MAX_UNIQUE_ITEMS or any(count.low > 1 or count.start for count in shape.counts):
        return False
    if shape.low <= 1:
        return True
    if any(count.high is not None for count in shape.counts):
        return False
    last = min(shape.prefix, shape.low - 1)
    return all(_has_enough(shape.literals(index), shape.low, expander) for index in range(1, last + 1)) and (
        shape.prefix > 0 or _has_enough(shape.literals(0), shape.low, expander)
    )


def _has_enough(literals: Literals, count: int, expander: Expander) -> bool:
    """Whether certainly so many scalars satisfy all of some literals."""
    outline = outline_intersection(map(expander.outlines.of, literals))
    kinds = possible_kinds(outline)
    strings = conjunction(expander.formula(literal, STRING) for literal in literals)
    numbers = conjunction(expander.formula(literal, NUMBER) for literal in literals)
    if sum(1 for one in spend_on_each(outline.allowed or ()) if _is_one(one, strings, numbers)) >= count:
        return True
    if kinds & STRING and strings != FALSE and _has_any_length(strings):
        return True
    return bool(kinds & NUMBER) and numbers != FALSE and _has_no_end(numbers)


def _has_any_length(formula: Formula) -> bool:
    """Whether only a length restricts the strings, and not to less than two characters: a million squared."""
    return formula == TRUE or (formula[0] == LENGTH and (formula[2] is None or formula[2] > 1))


def _has_no_end(formula: Formula) -> bool:
    """Whether the numbers go on without end: of assertions there are a type and a bound in one direction."""
    atoms = formula[1] if formula[0] == AND else (formula,)
    bounds = [atom for atom in atoms if atom[0] != INTEGER]
    one_sided = {atom[0] for atom in bounds}
    return len(one_sided) <= 1 and all(atom[0] == LESS or _is_minimum(atom) for atom in bounds)


def _is_one(value: Any, strings: Formula, numbers: Formula) -> bool:
    """Whether a constant is one of the strings, or certainly one of the numbers."""
    if isinstance(value, str):
        return holds(strings, value)
    return numbers == TRUE or (numbers[0] == WITHIN and value in numbers[1])


def _is_minimum(atom: Formula) -> bool:
    return bool(atom[0] == NOT and atom[1][0] == LESS)


def _unlike(shape: ArrayShape, expander: Expander, last: int) -> frozenset[int]:
    """The indexes of items whose types no other item has; that of the last ones only if there is but one."""
    kinds = [
        possible_kinds(outline_intersection(map(expander.outlines.of, shape.literals(index))))
        for index in spend_on_each(range(last + 1), 3)
    ]
    taken = 0
    shared = 0
    for kind in kinds:
        shared |= taken & kind
        taken |= kind
    single = last + 1 if shape.high == last + 1 else last
    return frozenset(index for index in range(single) if not kinds[index] & shared)


def _finite(literals: Literals, expander: Expander) -> list[Any] | None:
    if NEVER in literals:
        return []
    outline = outline_intersection(map(expander.outlines.of, literals))
    kinds = possible_kinds(outline)
    allowed: Iterable[Any] | None = outline.allowed
    if allowed is None and kinds & (STRING | NUMBER) == NUMBER:
        allowed = whole_numbers(expander.formula(literal, NUMBER) for literal in literals)
    if kinds & (ARRAY | OBJECT) or (kinds & (STRING | NUMBER) and allowed is None):
        return None
    values: list[Any] = [value for kind, value in _CONSTANT_VALUES.items() if kinds & kind]
    for value in allowed or ():
        if kinds & (NUMBER if isinstance(value, Decimal) else STRING) and value not in outline.excluded:
            values.append(value)
    return values


def _in_order(values: list[Any]) -> list[Any]:
    """Constants in an order that does not depend on that of a set."""
    texts = sort([value for value in values if isinstance(value, str)])
    numbers = sort([value for value in values if isinstance(value, Decimal)])
    return [*(value for value in values if not isinstance(value, (str, Decimal))), *numbers, *texts]


_CONSTANT_VALUES = {NULL: None, FALSEHOOD: False, TRUTH: True}
