"""JSON text of schemas and the like that may contain types of Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_PLAIN = (str, bytes, bytearray, int, float, complex, list, tuple, set, frozenset, Mapping)


def is_described(value: Any) -> bool:
    """Whether `value` may be a type or function whose values have a schema: no plain data."""
    return value is not None and not isinstance(value, _PLAIN)


def json_text(value: Any) -> str:
    """`value` as JSON text, types of Python in it as their schemas (see `python_types.schema_of`).

    Raises TypeError or ValueError for what is neither, RecursionError for what is nested too deeply.
    """
    return _encode(_schema(value) if is_described(value) else value)


def _schema(described: Any) -> dict[str, Any]:
    from .python_types import schema_of  # few schemas need it

    return schema_of(described)


def _embedded(described: Any) -> dict[str, Any]:
    """The schema of a type within another schema: an id of its own keeps its references within it."""
    import hashlib

    schema = _schema(described)
    if "$defs" not in schema or "$id" in schema:
        return schema
    name = hashlib.sha256(_encode(schema).encode()).hexdigest()[:16]
    return {"$id": f"type:{name}", **schema}


_encode = json.JSONEncoder(ensure_ascii=False, default=_embedded).encode
