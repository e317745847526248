"""The types of JSON values, and what is plain to see of a schema without reading it closely."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from ..errors import GrammarError
from .numbers import decimal

NULL, FALSEHOOD, TRUTH, NUMBER, STRING, ARRAY, OBJECT = (1 << i for i in range(7))
ALL_KINDS = 127
CONSTANTS = {NULL: b"null", FALSEHOOD: b"false", TRUTH: b"true"}


class Outline(NamedTuple):
    """What is plain to see of a literal: a superset of its values.

    kinds     the types that it allows, as a mask
    allowed   the strings and numbers that it allows, if it names them; else None
    excluded  strings and numbers that it does not allow
    """

    kinds: int = ALL_KINDS
    allowed: frozenset[Any] | None = None
    excluded: frozenset[Any] = frozenset()


def kind_of(value: Any) -> int:
    """The type of a JSON value. Raises GrammarError for what is none."""
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
    raise GrammarError(f"a JSON Schema cannot have a value of type {type(value).__name__}")


def possible_kinds(outline: Outline) -> int:
    """The types of which an outline leaves a value, as a mask."""
    kinds, allowed, excluded = outline
    if allowed is not None:
        rest = allowed - excluded
        if not any(isinstance(value, str) for value in rest):
            kinds &= ~STRING
        if all(isinstance(value, str) for value in rest):
            kinds &= ~NUMBER
    return kinds


def together(outlines: Iterable[Outline]) -> Outline:
    """The outline of all at once."""
    kinds, allowed, excluded = Outline()
    for other in outlines:
        kinds &= other.kinds
        if other.allowed is not None:
            allowed = other.allowed if allowed is None else allowed & other.allowed
        excluded |= other.excluded
    return Outline(kinds, allowed, excluded)


def either(outlines: Iterable[Outline]) -> Outline:
    """The outline of any one of them."""
    kinds, allowed = 0, frozenset[Any]()
    open_ended = False
    for other in outlines:
        alive = possible_kinds(other)
        kinds |= alive
        if other.allowed is not None:
            allowed |= other.allowed - other.excluded
        elif alive & (STRING | NUMBER):
            open_ended = True
    return Outline(kinds, None if open_ended else allowed)


def _scalars(values: Iterable[Any]) -> frozenset[Any]:
    found: set[Any] = set()
    for value in values:
        kind = kind_of(value)
        if kind & (STRING | NUMBER):
            found.add(value if kind == STRING else decimal(value, "const"))
    return frozenset(found)


def of_values(values: list[Any]) -> Outline:
    """The outline of constants."""
    kinds = 0
    for value in values:
        kinds |= kind_of(value)
    return Outline(kinds, _scalars(values))


def without_values(values: list[Any]) -> Outline:
    """The outline of all but some constants."""
    kinds = ALL_KINDS
    for value in values:
        kinds &= ~(kind_of(value) & (NULL | FALSEHOOD | TRUTH))
    return Outline(kinds, None, _scalars(values))


_TYPES = {
    "null": NULL,
    "boolean": FALSEHOOD | TRUTH,
    "number": NUMBER,
    "integer": NUMBER,
    "string": STRING,
    "array": ARRAY,
    "object": OBJECT,
    "any": ALL_KINDS,
}


def type_mask(value: Any) -> int:
    """The types that `type` names, as a mask. Raises GrammarError for an unknown one."""
    kinds = 0
    for name in value if isinstance(value, list) else (value,):
        if not isinstance(name, str) or name not in _TYPES:
            raise GrammarError(f"type {str(name)[:40]!r} is none of JSON Schema's types")
        kinds |= _TYPES[name]
    return kinds
