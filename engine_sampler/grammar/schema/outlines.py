"""The types of JSON values, and outlines: approximations of a schema that are cheap to compute."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from ...base.errors import quoted
from ..errors import GrammarError
from ..work import spend, spend_on_each
from .scalars.numbers import decimal

NULL, FALSEHOOD, TRUTH, NUMBER, STRING, ARRAY, OBJECT = (1 << i for i in range(7))
ALL_KINDS = 127

_MANY = 64
"""The number of constants beyond which each is counted where sets of them are combined."""

CONSTANTS = {NULL: b"null", FALSEHOOD: b"false", TRUTH: b"true"}


class ValueOutline(NamedTuple):
    """An approximation of a literal: a superset of its values.

    kinds     the types that it allows, as a mask
    allowed   the strings and numbers that it allows, if it lists them; else None
    excluded  strings and numbers that it does not allow
    """

    kinds: int = ALL_KINDS
    allowed: frozenset[Any] | None = None
    excluded: frozenset[Any] = frozenset()


def json_kind(value: Any) -> int:
    """The type of a JSON value. Raises GrammarError for anything else."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return TRUTH if value else FALSEHOOD
    if isinstance(value, str):
        return STRING
    if isinstance(value, (int, float, Decimal)):
        return NUMBER
    if isinstance(value, list):
        return ARRAY
    if isinstance(value, dict):
        return OBJECT
    raise GrammarError(f"a JSON Schema cannot contain a value of type {type(value).__name__}")


def possible_kinds(outline: ValueOutline) -> int:
    """The types of which an outline leaves any value, as a mask."""
    kinds, allowed, excluded = outline
    if allowed is not None:
        rest = allowed - excluded if excluded else allowed
        if len(rest) > _MANY:
            spend(len(rest) // 8)
        if not any(isinstance(value, str) for value in rest):
            kinds &= ~STRING
        if all(isinstance(value, str) for value in rest):
            kinds &= ~NUMBER
    return kinds


def outline_intersection(outlines: Iterable[ValueOutline]) -> ValueOutline:
    """The outline of values that satisfy all of the outlines."""
    kinds, allowed, excluded = ValueOutline()
    for other_kinds, other_allowed, other_excluded in outlines:
        kinds &= other_kinds
        if other_allowed is not None:
            allowed = other_allowed if allowed is None else allowed & other_allowed
            if len(allowed) > _MANY:
                spend(len(allowed) // 16)
        if other_excluded:
            excluded |= other_excluded
            if len(excluded) > _MANY:
                spend(len(excluded) // 16)
    return ValueOutline(kinds, allowed, excluded)


def outline_union(outlines: Iterable[ValueOutline]) -> ValueOutline:
    """The outline of values that satisfy at least one of the outlines."""
    kinds, allowed = 0, set[Any]()
    open_ended = False
    for other in outlines:
        possible = possible_kinds(other)
        kinds |= possible
        if other.allowed is not None:
            allowed |= other.allowed - other.excluded
            spend(1 + len(other.allowed) // 16)
        elif possible & (STRING | NUMBER):
            open_ended = True
    return ValueOutline(kinds, None if open_ended else frozenset(allowed))


def _scalars(values: Iterable[Any]) -> frozenset[Any]:
    found: set[Any] = set()
    for value in spend_on_each(values):
        kind = json_kind(value)
        if kind & (STRING | NUMBER):
            found.add(value if kind == STRING else decimal(value, "const"))
    return frozenset(found)


def outline_of_values(values: list[Any]) -> ValueOutline:
    """The outline of constants."""
    kinds = 0
    for value in spend_on_each(values):
        kinds |= json_kind(value)
    return ValueOutline(kinds, _scalars(values))


def outline_without_values(values: list[Any]) -> ValueOutline:
    """The outline of all values except some constants."""
    kinds = ALL_KINDS
    for value in spend_on_each(values):
        kinds &= ~(json_kind(value) & (NULL | FALSEHOOD | TRUTH))
    return ValueOutline(kinds, None, _scalars(values))


TYPES = {
    "null": NULL,
    "boolean": FALSEHOOD | TRUTH,
    "number": NUMBER,
    "integer": NUMBER,
    "string": STRING,
    "array": ARRAY,
    "object": OBJECT,
    "any": ALL_KINDS,
}
"""The types of JSON Schema by name, as masks."""


def type_mask(value: Any) -> int:
    """The types that `type` names, as a mask. Raises GrammarError for an unknown one."""
    kinds = TYPES.get(value, 0) if isinstance(value, str) else 0
    if kinds:
        return kinds
    names = value if isinstance(value, list) else (value,)
    for name in names if len(names) <= _MANY else spend_on_each(names):
        if not isinstance(name, str) or name not in TYPES:
            raise GrammarError(f"type {quoted(name)} is not one of JSON Schema's types")
        kinds |= TYPES[name]
    return kinds
