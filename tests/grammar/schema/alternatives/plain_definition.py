"""What some keywords of JSON Schema mean, written down as plainly as the standard does."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def is_equal(value: Any, other: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(is_equal(value[name], other[name]) for name in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(is_equal, value, other))
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def is_valid(schema: Any, value: Any) -> bool:
    """Whether a value is valid under a schema without references."""
    if isinstance(schema, bool):
        return schema
    return all(
        _MEANINGS[keyword](one, value, schema) for keyword, one in schema.items() if keyword in _MEANINGS
    )


def _type(types: Any, value: Any, schema: Any) -> bool:
    return any(_TYPES[name](value) for name in ([types] if isinstance(types, str) else types))


def _properties(properties: Any, value: Any, schema: Any) -> bool:
    return not isinstance(value, dict) or all(
        is_valid(one, value[name]) for name, one in properties.items() if name in value
    )


def _pattern_properties(patterns: Any, value: Any, schema: Any) -> bool:
    return not isinstance(value, dict) or all(
        is_valid(one, member)
        for pattern, one in patterns.items()
        for name, member in value.items()
        if re.search(pattern, name)
    )


def _additional(one: Any, value: Any, schema: Any) -> bool:
    declared, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return not isinstance(value, dict) or all(
        is_valid(one, member)
        for name, member in value.items()
        if name not in declared and not any(re.search(pattern, name) for pattern in patterns)
    )


def _if(condition: Any, value: Any, schema: Any) -> bool:
    return is_valid(schema.get("then" if is_valid(condition, value) else "else", True), value)


_NUMBER, _STRING = _TYPES["number"], _TYPES["string"]
_MEANINGS: dict[str, Callable[[Any, Any, Any], bool]] = {
    "type": _type,
    "const": lambda one, value, _: is_equal(one, value),
    "enum": lambda ones, value, _: any(is_equal(one, value) for one in ones),
    "allOf": lambda ones, value, _: all(is_valid(one, value) for one in ones),
    "anyOf": lambda ones, value, _: any(is_valid(one, value) for one in ones),
    "oneOf": lambda ones, value, _: sum(is_valid(one, value) for one in ones) == 1,
    "not": lambda one, value, _: not is_valid(one, value),
    "if": _if,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "required": lambda names, value, _: not isinstance(value, dict) or all(name in value for name in names),
    "minProperties": lambda low, value, _: not isinstance(value, dict) or len(value) >= low,
    "maxProperties": lambda high, value, _: not isinstance(value, dict) or len(value) <= high,
    "items": lambda one, value, _: not isinstance(value, list) or all(is_valid(one, item) for item in value),
    "minItems": lambda low, value, _: not isinstance(value, list) or len(value) >= low,
    "maxItems": lambda high, value, _: not isinstance(value, list) or len(value) <= high,
    "pattern": lambda pattern, value, _: not _STRING(value) or bool(re.search(pattern, value)),
    "maxLength": lambda high, value, _: not _STRING(value) or len(value) <= high,
    "minimum": lambda low, value, _: not _NUMBER(value) or value >= low,
    "maximum": lambda high, value, _: not _NUMBER(value) or value <= high,
    "multipleOf": lambda of, value, _: not _NUMBER(value) or Decimal(str(value)) % Decimal(str(of)) == 0,
}
