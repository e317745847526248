"""The `$defs` of a schema that is put together from those of several types."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_PREFIX = "#/$defs/"


class Definitions:
    """Schemas by name, to which the others refer."""

    def __init__(self) -> None:
        self._schemas: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._types: list[Any] = []

    def reference(self, described: Any, name: str, build: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A reference to the definition of a type, which is built when it is first asked for."""
        known = self._names.get(id(described))
        if known is None:
            known = self._names[id(described)] = self._free(name)
            self._types.append(described)  # so that its id stays its own
            self._schemas[known] = None
            self._schemas[known] = build()
        return {"$ref": _PREFIX + known}

    def included(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A whole schema without its `$defs` (`definitions` in pydantic 1), which join these; those whose
        names are taken by others get new ones."""
        keyword = "$defs" if "$defs" in schema else "definitions"
        own = schema.get(keyword)
        if not isinstance(own, dict):
            return schema
        names = {name: self._free(name, one) for name, one in own.items()}
        moved = {f"#/{keyword}/{old}": _PREFIX + new for old, new in names.items()}
        if any(old != new for old, new in moved.items()):
            schema = _renamed(schema, moved)
        self._schemas |= {names[old]: one for old, one in zip(own, schema[keyword].values(), strict=True)}
        return {key: one for key, one in schema.items() if key != keyword}

    def completed(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The whole schema: what `schema` refers to in its `$defs`. A definition that nothing else refers to
        stands in the place of the reference."""
        if schema.keys() == {"$ref"} and schema["$ref"].startswith(_PREFIX):
            name = schema["$ref"].removeprefix(_PREFIX)
            if json.dumps({"$ref": _PREFIX + name})[1:-1] not in json.dumps(self._schemas):
                schema = self._schemas.pop(name)
        return {**schema, "$defs": dict(self._schemas)} if self._schemas else schema

    def _free(self, name: str, schema: Any = None) -> str:
        """`name`, or with a number behind it if another definition has it."""
        tried, number = name, 1
        while tried in self._schemas and (schema is None or self._schemas[tried] != schema):
            number += 1
            tried = f"{name}_{number}"
        return tried


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """A schema in which references lead to the new names."""
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: names.get(one, one) if key == "$ref" and isinstance(one, str) else _renamed(one, names)
        for key, one in value.items()
    }
