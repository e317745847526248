"""Schemas that must hold together, `allOf` and the like, as one schema without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import UnsupportedKeywordError
from ..work import spend

_LEAST = ("minLength", "minItems", "minimum", "exclusiveMinimum", "minProperties")
_MOST = ("maxLength", "maxItems", "maximum", "exclusiveMaximum", "maxProperties")


def conjunction(schemas: Iterable[Any]) -> Any:
    """A schema for the values that are valid under all `schemas`, which have no references and no choices.

    Raises UnsupportedKeywordError where one schema cannot say so without `allOf`.
    """
    found: list[Mapping[str, Any]] = []
    for schema in schemas:
        if schema is False:
            return False
        if schema is not True and schema and schema not in found:
            found.append(schema)
    if len(found) < 2:
        return found[0] if found else True
    merged: dict[str, Any] = {}
    for schema in found:
        spend(5 + len(schema))
        for keyword, value in schema.items():
            if keyword in _MEMBERS:
                continue
            if keyword not in merged:
                merged[keyword] = value
            elif merged[keyword] != value:
                merged[keyword] = _both(keyword, merged[keyword], value)
    return merged | _members(found)


_MEMBERS = ("properties", "patternProperties", "additionalProperties")


def _both(keyword: str, one: Any, other: Any) -> Any:
    """The value of a keyword that two schemas have."""
    merge = _MERGES.get(keyword)
    if merge is None:
        raise UnsupportedKeywordError(f"the keyword {keyword!r} has two values in an allOf of an argument")
    return merge(one, other)


def _common_types(one: Any, other: Any) -> list[str]:
    first, second = ([given] if isinstance(given, str) else list(given) for given in (one, other))
    if "integer" in first and "number" in second:
        second.append("integer")
    if "integer" in second and "number" in first:
        first.append("integer")
    return [name for name in first if name in second]


_MERGES: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(_LEAST, max),
    **dict.fromkeys(_MOST, min),
    "type": _common_types,
    "enum": lambda one, other: [value for value in one if value in other],
    "required": lambda one, other: [*one, *(name for name in other if name not in one)],
    "items": lambda one, other: {"allOf": [one, other]},
    **dict.fromkeys(("$defs", "definitions"), lambda one, other: {**one, **other}),
    **dict.fromkeys(
        ("title", "description", "default", "examples", "$comment", "$schema", "$id"), lambda one, other: one
    ),
}


def _members(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The members of an object under all schemas: what one says about others holds for those that it does not
    name."""
    names = dict.fromkeys(name for schema in schemas for name in schema.get("properties", {}))
    patterns = [schema.get("patternProperties") for schema in schemas]
    others = [schema.get("additionalProperties", True) for schema in schemas]
    if any(patterns) and any(other not in (True, {}) for other in others):
        raise UnsupportedKeywordError("patternProperties and additionalProperties in an allOf of arguments")
    pairs = [(schema.get("properties", {}), other) for schema, other in zip(schemas, others, strict=True)]
    properties = {name: _all_of(named.get(name, other) for named, other in pairs) for name in names}
    by_pattern: dict[str, Any] = {}
    for some in patterns:
        for pattern, schema in (some or {}).items():
            by_pattern[pattern] = _all_of([by_pattern.get(pattern, True), schema])
    found = {
        "properties": properties,
        "patternProperties": by_pattern,
        "additionalProperties": _all_of(others),
    }
    return {keyword: value for keyword, value in found.items() if value not in ({}, True)}


def _all_of(schemas: Iterable[Any]) -> Any:
    given = [schema for schema in schemas if schema not in (True, {})]
    if any(schema is False for schema in given):
        return False
    return {"allOf": given} if len(given) > 1 else given[0] if given else True
