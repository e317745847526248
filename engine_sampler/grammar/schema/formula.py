"""What a schema says about values of one JSON type: `and` and `or` over single assertions.

A formula is a tuple whose first member says its kind. A **literal** is an int: an even one negates the
subschema that the next odd one stands for (see `nodes`). Assertions, by the type that they are about:

    strings, keys   (WITHIN, strings)  (LENGTH, low, high)  (PATTERN, text)  (FORMAT, name)
    numbers         (WITHIN, decimals)  (LESS, bound, or_equal)  (INTEGER, strict)  (MULTIPLE, of)
    objects         (HAS, name, wanted)       the object has the key, or has it not
                    (CLAUSE, ((name, wanted), ...))   one of these at least
                    (PROPERTIES, ((name, literal), ...))  the values of these keys, where they are
                    (ALL, keys, literal)      the value of every key in `keys`, a formula for strings
                    (SOME, keys, literal)     the value of one key in `keys` at least
                    (SIZE, low, high)
    arrays          (ITEM, index, literal)    the item, where there is one
                    (FROM, index, literal)    every item from the index on
                    (COUNT, index, literal, low, high)  so many of the items from the index on
                    (SIZE, low, high)  (UNIQUE, wanted)

Only assertions about strings and numbers are negated as (NOT, assertion); the others have a negation
among themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import Any, TypeAlias, TypeVar

Formula: TypeAlias = tuple[Any, ...]

AND, OR, NOT, WITHIN, LENGTH, PATTERN, FORMAT, LESS, INTEGER, MULTIPLE = range(10)
HAS, CLAUSE, PROPERTIES, ALL, SOME, SIZE, ITEM, FROM, COUNT, UNIQUE = range(10, 20)

NEVER, ALWAYS = 0, 1
"""The literals of `false` and `true`."""

TRUE: Formula = (AND, ())
FALSE: Formula = (OR, ())


def conjunction(parts: Iterable[Formula]) -> Formula:
    """All of the parts."""
    return _joined(AND, parts)


def disjunction(parts: Iterable[Formula]) -> Formula:
    """One of the parts."""
    return _joined(OR, parts)


def weight(formula: Formula, most: int) -> int:
    """How many assertions there are in a formula, counted up to `most`."""
    found = 0
    waiting = [formula]
    while waiting and found <= most:
        part = waiting.pop()
        found += 1
        if part[0] in (AND, OR):
            waiting += part[1]
    return found


def _joined(kind: int, parts: Iterable[Formula]) -> Formula:
    flat: dict[Formula, None] = {}
    for part in parts:
        if part[0] == kind:
            flat.update(dict.fromkeys(part[1]))
        elif part[0] == 1 - kind and not part[1]:
            return part
        else:
            flat[part] = None
    if len(flat) == 1:
        return next(iter(flat))
    return (kind, tuple(flat))


def negation(formula: Formula) -> Formula:
    """What holds where `formula` does not."""
    kind = formula[0]
    if kind in (AND, OR):
        return _joined(1 - kind, map(negation, formula[1]))
    if kind == NOT:
        inner: Formula = formula[1]
        return inner
    if kind < HAS:
        return (NOT, formula)
    return _NEGATIONS[kind](*formula[1:])


def size(low: int, high: int | None) -> Formula:
    """A number of members or items from `low` to `high`."""
    if high is not None and low > high:
        return FALSE
    return TRUE if low <= 0 and high is None else (SIZE, max(low, 0), high)


def counted(index: int, literal: int, low: int, high: int | None) -> Formula:
    """`low` to `high` items from `index` on that satisfy the literal."""
    if high is not None and low > high:
        return FALSE
    if literal == NEVER:
        return FALSE if low > 0 else TRUE
    if literal == ALWAYS:
        return size(index + low if low > 0 else 0, None if high is None else index + high)
    return TRUE if low <= 0 and high is None else (COUNT, index, literal, max(low, 0), high)


def _outside(low: int, high: int | None) -> list[tuple[int, int | None]]:
    below: list[tuple[int, int | None]] = [(0, low - 1)] if low else []
    return below if high is None else [*below, (high + 1, None)]


def _not_clause(wanted: tuple[tuple[str, bool], ...]) -> Formula:
    return conjunction((HAS, name, not value) for name, value in wanted)


def _not_properties(members: tuple[tuple[str, int], ...]) -> Formula:
    return disjunction((SOME, (WITHIN, frozenset((name,))), literal ^ 1) for name, literal in members)


_NEGATIONS: dict[int, Any] = {
    HAS: lambda name, wanted: (HAS, name, not wanted),
    CLAUSE: _not_clause,
    PROPERTIES: _not_properties,
    ALL: lambda keys, literal: (SOME, keys, literal ^ 1),
    SOME: lambda keys, literal: (ALL, keys, literal ^ 1),
    SIZE: lambda low, high: disjunction(size(*part) for part in _outside(low, high)),
    ITEM: lambda index, literal: conjunction((size(index + 1, None), (ITEM, index, literal ^ 1))),
    FROM: lambda index, literal: counted(index, literal ^ 1, 1, None),
    COUNT: lambda index, literal, low, high: disjunction(
        counted(index, literal, *part) for part in _outside(low, high)
    ),
    UNIQUE: lambda wanted: (UNIQUE, not wanted),
}


Found = TypeVar("Found")
_KEPT_LENGTH = 4096
"""Formulas whose constants and patterns have so many characters or fewer are small."""


def _is_small(formula: Formula) -> bool:
    length = 0
    waiting = [formula]
    while waiting and length <= _KEPT_LENGTH:
        part = waiting.pop()
        if part[0] in (AND, OR):
            waiting += part[1]
            length += len(part[1])
        elif part[0] == NOT:
            waiting.append(part[1])
        elif part[0] == WITHIN:
            length += sum(len(value) if isinstance(value, str) else 8 for value in part[1])
        elif part[0] == PATTERN:
            length += len(part[1])
    return length <= _KEPT_LENGTH


def remembered(function: Callable[[Formula], Found]) -> Callable[[Formula], Found]:
    """Keep the last results, but for large formulas: what strangers send must not fill the memory."""
    kept = lru_cache(maxsize=512)(function)

    @wraps(function)
    def found(formula: Formula) -> Found:
        return kept(formula) if _is_small(formula) else function(formula)

    return found
