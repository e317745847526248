"""The parts of request bodies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..base.errors import quoted
from ..contract import ParameterError
from ..registry import STRUCTURED_PARAMS

STRUCTURED = ("json", "regex", "choice", "grammar", "ebnf", "json_object", "structural_tag")
"""The constraints in vLLM's `structured_outputs`."""

GUIDED = {f"guided_{name}": name for name in (*STRUCTURED, "whitespace_pattern")}
"""vLLM's older keys, and what they stand for."""

_CONSTRAINTS = {*STRUCTURED, *STRUCTURED_PARAMS, *GUIDED}


def mapping(key: str, value: Any) -> Mapping[str, Any]:
    """`value` of `key` as an object, without entries that are None."""
    if not isinstance(value, Mapping):
        raise ParameterError(f"{key}={quoted(value)} is not allowed: an object of parameters")
    for name in value:
        if not isinstance(name, str):
            raise ParameterError(f"{key} has the key {quoted(name)}, which is not a text")
    return {k: v for k, v in value.items() if v is not None}


def is_unset(key: str, value: Any) -> bool:
    """Whether the value of a key in a body means that it is not given: null, and for constraints empty text
    and an empty list, as some clients send them always."""
    if value is None:
        return True
    return key in _CONSTRAINTS and isinstance(value, str | list | tuple) and not value


def sequence_breakers(value: Any) -> Any:
    """The texts in a list of JSON as text, with its brackets or without, as front ends send them; anything
    else unchanged."""
    if not isinstance(value, str):
        return value
    inner = value.strip()
    try:
        return json.loads(inner if inner.startswith("[") else f"[{inner}]")
    except (ValueError, RecursionError):
        allowed = "a list of texts, or such a list as JSON"
        raise ParameterError(f"dry_sequence_breakers={quoted(value)} is not allowed: {allowed}") from None


def check_text(parameters: Mapping[str, Any]) -> None:
    """Raise `ParameterError` if the `json_schema` of a body is text that is not JSON."""
    schema = parameters.get("json_schema")
    if isinstance(schema, str):
        try:
            json.loads(schema)
        except RecursionError:
            raise ParameterError("json_schema is nested too deep to be read") from None
        except ValueError as error:
            raise ParameterError(f"json_schema={quoted(schema)} is not JSON: {error}") from None
