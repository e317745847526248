"""What the value of each keyword may be.

A subschema is checked once, before anything else reads its keywords. Whatever reads them later relies on
that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from ....base.errors import quoted
from ...errors import GrammarError
from ...work import spend, spend_on_each
from ..outlines import ALL_KINDS, type_mask

Items: TypeAlias = tuple[tuple[str, Any], ...]
"""Some keywords of a schema, and their values."""

_MANY = 64
"""The number of parts beyond which each is counted where they are tested."""

_STRINGS, _SCHEMAS, _NONE = frozenset((str,)), frozenset((dict, bool)), frozenset[type]()

VALIDATION = frozenset(
    "type const enum pattern minLength maxLength multipleOf minimum maximum exclusiveMinimum "
    "exclusiveMaximum required dependentRequired uniqueItems minItems maxItems minContains maxContains "
    "minProperties maxProperties".split()
)
"""The keywords of the vocabulary of validation."""


class Allowed(NamedTuple):
    """The values that a keyword may have.

    types   the types of which every value is allowed; none if keywords are read beside it
    holds   tests a value of another type
    words   what an allowed value is
    beside  keywords that are read only where this one is given
    """

    types: frozenset[type]
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
    return type_mask(value) >= 0  # which has an error of its own, also for names that are no types


def _all_hold(values: Collection[Any], types: frozenset[type], holds: Callable[[Any], bool]) -> bool:
    if len(values) > _MANY:
        spend(len(values) // 16)
    return types.issuperset(map(type, values)) or all(map(holds, spend_on_each(values)))


def _is_list_of(types: frozenset[type], holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and _all_hold(value, types, holds)


def _is_map_of(types: frozenset[type], holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, dict)
        and _all_hold(value, _STRINGS, _is_string)
        and _all_hold(value.values(), types, holds)
    )


def _either(*tests: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: any(test(value) for test in tests)


_are_schemas, _are_strings = _is_list_of(_SCHEMAS, _is_schema), _is_list_of(_STRINGS, _is_string)

_SCHEMA = Allowed(_SCHEMAS, _is_schema, "an object or a boolean")
_LIST = Allowed(_NONE, _are_schemas, "an array of objects and booleans")
_MEMBERS = Allowed(
    _NONE, _is_map_of(_SCHEMAS, _is_schema), "an object whose keys are strings, of objects and booleans"
)
_STRING = Allowed(_STRINGS, _is_string, "a string")
_COUNT = Allowed(_NONE, _is_count, "a whole number, 0 or more")
_NUMBER = Allowed(frozenset((int,)), _is_number, "a number")
_BOUND = Allowed(frozenset((int, bool)), _is_number, "a number or a boolean")

_ALLOWED: Mapping[str, Allowed] = {
    "type": Allowed(_STRINGS, _is_type, "one of JSON Schema's types, or an array of them"),
    "enum": Allowed(frozenset((list,)), _is_array, "an array"),
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef", "pattern"), _STRING),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _LIST),
    **dict.fromkeys(("not", "then", "else", "propertyNames", "additionalProperties"), _SCHEMA),
    **dict.fromkeys(("additionalItems", "unevaluatedProperties", "unevaluatedItems"), _SCHEMA),
    "if": _SCHEMA._replace(types=_NONE, beside=("then", "else")),
    "contains": _SCHEMA._replace(types=_NONE, beside=("minContains", "maxContains")),
    "items": Allowed(
        _SCHEMAS, _either(_is_schema, _are_schemas), "an object or a boolean, or an array of them"
    ),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _MEMBERS),
    "required": Allowed(frozenset((bool,)), _are_strings, "an array of strings"),
    "dependentRequired": Allowed(_NONE, _is_map_of(_NONE, _are_strings), "an object of arrays of strings"),
    "dependencies": Allowed(
        _NONE,
        _is_map_of(_SCHEMAS, _either(_is_schema, _is_string, _are_strings)),
        "an object of arrays of strings, objects and booleans",
    ),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _COUNT),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _COUNT),
    **dict.fromkeys(("minimum", "maximum"), _NUMBER),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), _BOUND),
    "multipleOf": Allowed(
        _NONE, lambda value: _is_number(value) and value > 0, "greater than 0, and a number"
    ),
}
"""For each keyword the values that it may have. Those of others, such as `format` and `uniqueItems`, mean
nothing where they are unknown."""


def find_fault(schema: Mapping[str, Any], items: Items, draft: int) -> str | None:
    """The first of some keywords of a schema with a value that it may not have."""
    for keyword, value in items:
        allowed = _ALLOWED.get(keyword)
        if allowed is not None and type(value) not in allowed[0]:
            try:
                fault = _fault(schema, keyword, value, allowed, draft)
            except GrammarError as error:
                error.place = schema, keyword
                raise
            if fault is not None:
                return fault
    return None


def without_faults(
    schema: Mapping[str, Any], items: Items, draft: int, keywords: Mapping[str, tuple[int, Any]]
) -> Items:
    """The keywords of a schema without those that apply to no type that the schema allows.

    keywords  for each keyword the types to which it applies, and what is of no interest here

    Raises GrammarError if one of these has a value that it may not have.
    """
    own = type_mask(schema["type"]) if "type" in schema else ALL_KINDS
    relevant = tuple([item for item in items if keywords[item[0]][0] & own])
    fault = find_fault(schema, relevant, draft)
    if fault is None:
        return relevant
    error = GrammarError(f"{fault} must be {_ALLOWED[fault].words}, not {quoted(schema[fault])}")
    error.place = schema, fault
    raise error


def _fault(schema: Mapping[str, Any], keyword: str, value: Any, allowed: Allowed, draft: int) -> str | None:
    """The keyword, or one beside it, if its value is of no type of which every value is allowed."""
    _, holds, _, beside = allowed
    is_read = keyword != "additionalItems" or _is_array(schema.get("items"))
    if is_read and not holds(value):
        return keyword
    if beside and (draft >= 2019 or keyword == "if"):
        for other in beside:
            if other in schema and not _is_allowed(other, schema[other]):
                return other
    return None


def _is_allowed(keyword: str, value: Any) -> bool:
    allowed = _ALLOWED[keyword]
    return type(value) in allowed.types or allowed.holds(value)
