"""The constraints that a schema puts on values of one JSON type: `and` and `or` over single assertions.

A formula is a tuple whose first member is its kind. A **literal** is an int: an even one is the negation
of the subschema that the next odd one stands for (see `nodes`). Assertions, by the type they apply to:

    strings, keys   (WITHIN, strings)  (LENGTH, low, high)  (PATTERN, text)  (FORMAT, name)
    numbers         (WITHIN, decimals)  (LESS, bound, or_equal)  (INTEGER, strict)  (MULTIPLE, of)
    objects         (HAS, name, present)      the key is present, or absent
                    (CLAUSE, ((name, present), ...))   at least one of these
                    (PROPERTIES, ((name, literal), ...))  the values of these keys, if present
                    (ALL, keys, literal)      the value of every key in `keys`, a formula for strings
                    (SOME, keys, literal)     the value of at least one key in `keys`
                    (SIZE, low, high)
    arrays          (ITEM, index, literal)    the item at the index, if there is one
                    (FROM, index, literal)    every item from the index on
                    (COUNT, index, literal, low, high)  low to high of the items from the index on
                    (SIZE, low, high)  (UNIQUE, unique)
    both            (LISTED, listed)          one of many constants, see `listed`

Only assertions about strings and numbers are negated as (NOT, assertion); the negation of any other
assertion is a formula over the same kinds of assertions. `and` and `or` are `Joined`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ..work import spend

Formula: TypeAlias = tuple[Any, ...]

AND, OR, NOT, WITHIN, LENGTH, PATTERN, FORMAT, LESS, INTEGER, MULTIPLE = range(10)
HAS, CLAUSE, PROPERTIES, ALL, SOME, SIZE, ITEM, FROM, COUNT, UNIQUE, LISTED = range(10, 21)

NEVER, ALWAYS = 0, 1
"""The literals of `false` and `true`."""


class Joined(NamedTuple):
    """`and` or `or` over parts. Formulas are hashed again and again, so it knows its own hash.

    weight  the number of assertions in it, `and` and `or` among them
    """

    kind: int
    parts: tuple[Formula, ...]
    weight: int
    own_hash: int

    def __hash__(self) -> int:
        return self.own_hash


def joined(kind: int, parts: tuple[Formula, ...]) -> Joined:
    """`and` or `or` over parts that are different, and not of this kind themselves."""
    spend(1 + len(parts) // 2)
    weights = [part[2] if type(part) is Joined else 1 for part in parts]
    return Joined(kind, parts, 1 + sum(weights), hash((kind, parts)))


def weight(formula: Formula) -> int:
    """The number of assertions in a formula."""
    return formula.weight if type(formula) is Joined else 1


TRUE: Formula = joined(AND, ())
FALSE: Formula = joined(OR, ())


def conjunction(parts: Iterable[Formula]) -> Formula:
    """The formula that holds where all parts hold."""
    return _joined(AND, parts)


def disjunction(parts: Iterable[Formula]) -> Formula:
    """The formula that holds where at least one part holds."""
    return _joined(OR, parts)


def _joined(kind: int, parts: Iterable[Formula]) -> Formula:
    flat: dict[Formula, None] = {}
    for number, part in enumerate(parts):
        if number & 127 == 127:
            spend(256)
        if part[0] == kind:
            flat.update(dict.fromkeys(part[1]))
            if len(part[1]) > 63:
                spend(len(part[1]) // 8)
        elif part[0] == 1 - kind and not part[1]:
            return part
        else:
            flat[part] = None
    if len(flat) == 1:
        return next(iter(flat))
    return joined(kind, tuple(flat))


def negation(formula: Formula) -> Formula:
    """The formula that holds where `formula` does not."""
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


def _not_clause(literals: tuple[tuple[str, bool], ...]) -> Formula:
    return conjunction((HAS, name, not present) for name, present in literals)


def _not_properties(members: tuple[tuple[str, int], ...]) -> Formula:
    return disjunction((SOME, (WITHIN, frozenset((name,))), literal ^ 1) for name, literal in members)


_NEGATIONS: dict[int, Any] = {
    HAS: lambda name, present: (HAS, name, not present),
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
    UNIQUE: lambda unique: (UNIQUE, not unique),
    LISTED: lambda listed: negation(listed.formula),
}


Found = TypeVar("Found")
_MAX_CACHED_LENGTH = 4096
"""Maximum number of characters in the constants and patterns of a formula that is cached."""


def _is_small(formula: Formula) -> bool:
    length = 0
    waiting = [formula]
    while waiting and length <= _MAX_CACHED_LENGTH:
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
    return length <= _MAX_CACHED_LENGTH


def cached_if_small(function: Callable[[Formula], Found]) -> Callable[[Formula], Found]:
    """Cache the latest results, except for large formulas: untrusted input must not fill the memory."""
    cached = lru_cache(maxsize=512)(function)

    @wraps(function)
    def found(formula: Formula) -> Found:
        return cached(formula) if _is_small(formula) else function(formula)

    return found
