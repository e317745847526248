"""Changes of JSON Schemas that request bodies ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...base.errors import quoted
from ...base.json_text import is_described
from ...contract import ParameterError

_VALUES = ("enum", "const", "default", "examples")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")


def described_schema(name: str, described: Any) -> dict[str, Any]:
    """The schema of a type of Python. Raises `ParameterError`, which names the parameter."""
    from ...base.python_types import schema_of  # few schemas are given so

    try:
        return schema_of(described)
    except ValueError as error:
        raise ParameterError(f"{name}={quoted(described)} is not allowed: {error}") from None


def without_additional_properties(schema: Any) -> Any:
    """A schema in which every object that names properties allows no others, unless it says so itself.

    Text is read as JSON. Raises `ParameterError` for text that is not JSON, and for a schema nested too deep.
    """
    try:
        if is_described(schema):
            schema = described_schema("json_schema", schema)
        return _closed(json.loads(schema) if isinstance(schema, str) else schema)
    except RecursionError:
        raise ParameterError("json_schema is nested too deep for disable_additional_properties") from None
    except ValueError as error:
        raise ParameterError(f"json_schema={quoted(schema)} is not JSON: {error}") from None


def _closed(value: Any) -> Any:
    if isinstance(value, list):
        return [_closed(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    found = {key: one if key in _VALUES else _closed_members(key, one) for key, one in value.items()}
    if "additionalProperties" not in found and ("properties" in found or "patternProperties" in found):
        found["additionalProperties"] = False
    return found


def _closed_members(keyword: str, value: Any) -> Any:
    """The value of a keyword; that of `properties` and the like is not a schema, but its members are."""
    if keyword in _MAPS and isinstance(value, Mapping):
        return {name: _closed(one) for name, one in value.items()}
    return _closed(value)
