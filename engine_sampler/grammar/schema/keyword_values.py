"""What the value of each keyword may be.

A subschema is checked once, before anything else reads its keywords. Whatever reads them later relies on
that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from ...base.errors import quoted
from ..errors import GrammarError
from ..work import spend_on_each
from .outlines import ALL_KINDS, type_mask

Items: TypeAlias = tuple[tuple[str, Any], ...]
"""Some keywords of a schema, and their values."""

_MANY = 1024
"""The number of values from which on the test of each is counted."""


class Allowed(NamedTuple):
    """The values that a keyword may have.

    holds   tests a value
    words   what an allowed value is
    beside  keywords that are read only where this one is given
    """

    holds: Callable[[Any], bool]
    words: str
    beside: tuple[str, ...] = ()


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_array(value: Any) -> bool:
    return isinstance(value, list)


def _is_number(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite()
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and (isinstance(value, int) or float(value).is_integer())


def _is_type(value: Any) -> bool:
    return type_mask(value) >= 0  # an unknown one has an error of its own


def _all_hold(holds: Callable[[Any], bool], values: Collection[Any]) -> bool:
    some = values if len(values) < _MANY else spend_on_each(values)
    return all(map(holds, some))


def _is_list_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and _all_hold(holds, value)


def _is_map_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def all_hold(value: Any) -> bool:
        return isinstance(value, dict) and _all_hold(_is_string, value) and _all_hold(holds, value.values())

    return all_hold


def _either(*tests: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: any(test(value) for test in tests)


_are_schemas, _are_strings = _is_list_of(_is_schema), _is_list_of(_is_string)

_SCHEMA = Allowed(_is_schema, "an object or a boolean")
_SCHEMAS = Allowed(_are_schemas, "an array of objects and booleans")
_MEMBERS = Allowed(_is_map_of(_is_schema), "an object whose keys are strings, of objects and booleans")
_STRING = Allowed(_is_string, "a string")
_COUNT = Allowed(_is_count, "a whole number, 0 or more")
_NUMBER = Allowed(_is_number, "a number")
_BOUND = Allowed(_either(_is_number, lambda value: isinstance(value, bool)), "a number or a boolean")

_ALLOWED: Mapping[str, Allowed] = {
    "type": Allowed(_is_type, "one of JSON Schema's types, or an array of them"),
    "enum": Allowed(_is_array, "an array"),
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef", "pattern"), _STRING),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _SCHEMAS),
    **dict.fromkeys(("not", "then", "else", "propertyNames", "additionalProperties"), _SCHEMA),
    **dict.fromkeys(("additionalItems", "unevaluatedProperties", "unevaluatedItems"), _SCHEMA),
    "if": _SCHEMA._replace(beside=("then", "else")),
    "contains": _SCHEMA._replace(beside=("minContains", "maxContains")),
    "items": Allowed(_either(_is_schema, _are_schemas), "an object or a boolean, or an array of them"),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _MEMBERS),
    "required": Allowed(_either(_are_strings, lambda value: isinstance(value, bool)), "an array of strings"),
    "dependentRequired": Allowed(_is_map_of(_are_strings), "an object of arrays of strings"),
    "dependencies": Allowed(
        _is_map_of(_either(_is_schema, _is_string, _are_strings)),
        "an object of arrays of strings, objects and booleans",
    ),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _COUNT),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _COUNT),
    **dict.fromkeys(("minimum", "maximum"), _NUMBER),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _BOUND),
    "multipleOf": Allowed(lambda value: _is_number(value) and value > 0, "greater than 0, and a number"),
}
"""For each keyword the values that it may have. Those of others, such as `format` and `uniqueItems`, mean
nothing where they are unknown."""


def checked(
    schema: Mapping[str, Any], items: Items, draft: int, keywords: Mapping[str, tuple[int, Any]]
) -> Items:
    """The keywords of a schema, all of which have an allowed value.

    keywords  for each keyword the types to which it applies, and what is of no interest here

    Raises GrammarError for any other value, unless the keyword applies to no type that the schema allows:
    then all such keywords are left out.
    """
    fault = _fault(schema, items, draft)
    if fault is None:
        return items
    own = type_mask(schema["type"]) if "type" in schema else ALL_KINDS
    rest = tuple([item for item in items if keywords[item[0]][0] & own])
    fault = _fault(schema, rest, draft)
    if fault is None:
        return rest
    keyword, value = fault
    raise GrammarError(f"{keyword} must be {_ALLOWED[keyword].words}, not {quoted(value)}")


def _fault(schema: Mapping[str, Any], items: Items, draft: int) -> tuple[str, Any] | None:
    """The first keyword with a value that it may not have, and the value."""
    for keyword, value in items:
        allowed = _ALLOWED.get(keyword)
        if allowed is None:
            continue
        if not allowed.holds(value) and (keyword != "additionalItems" or _is_array(schema.get("items"))):
            return keyword, value
        for other in allowed.beside if draft >= 2019 or keyword == "if" else ():
            if other in schema and not _ALLOWED[other].holds(schema[other]):
                return other, schema[other]
    return None
