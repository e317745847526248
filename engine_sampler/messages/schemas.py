"""What a schema says about the types of values: enough to read what a family writes without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

TYPES = frozenset(("string", "number", "boolean", "null", "object", "array"))
_MAX_DEPTH = 16
_MAX_PARTS = 500
"""Maximum number of schemas within one that are looked at: clients write them."""
_NUMBERS = {"integer": "number"}


class SchemaView:
    """The values that a schema allows, so far as their types and listed strings go; all values if it cannot
    be followed. References are followed within the document."""

    def __init__(self, schema: Any, document: Any = None) -> None:
        self._schema = schema
        self._document = schema if document is None else document
        self._parts = 0
        self._within: dict[str | int | None, SchemaView] = {}

    @cached_property
    def _alternatives(self) -> tuple[Mapping[str, Any], ...]:
        """Schemas any of which may hold, without references and choices at their top; () for a schema that
        says nothing."""
        try:
            return tuple(self._expanded(self._schema, 0))
        except _UnknownError:
            return ()

    def _expanded(self, schema: Any, depth: int) -> Iterator[Mapping[str, Any]]:
        self._parts += 1
        if not isinstance(schema, Mapping) or depth == _MAX_DEPTH or self._parts > _MAX_PARTS:
            raise _UnknownError
        if "$ref" in schema:
            yield from self._expanded(self._target(schema["$ref"]), depth + 1)
            return
        choices = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(choices, list):
            rest = {key: one for key, one in schema.items() if key not in ("anyOf", "oneOf")}
            for choice in choices:
                yield from ({**rest, **one} for one in self._expanded(choice, depth + 1))
            return
        parts = schema.get("allOf")
        if isinstance(parts, list) and parts:
            merged = {key: one for key, one in schema.items() if key != "allOf"}
            for part in parts:
                for one in self._expanded(part, depth + 1):
                    merged = {**one, **merged}
            yield merged
            return
        yield schema

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise _UnknownError
        target = self._document
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or name not in target:
                raise _UnknownError
            target = target[name]
        return target

    @cached_property
    def types(self) -> frozenset[str]:
        """The types of its values; whole numbers are numbers."""
        if not self._alternatives:
            return TYPES
        return frozenset().union(*map(_types_of, self._alternatives))

    @cached_property
    def strings(self) -> frozenset[str] | None:
        """The strings that it lists; None if it does not list them. Empty if its values are no strings."""
        if "string" not in self.types:
            return frozenset()
        listed: set[str] = set()
        for one in self._alternatives:
            if "string" in _types_of(one):
                values = _listed(one)
                if values is None:
                    return None
                listed.update(value for value in values if isinstance(value, str))
        return frozenset(listed) if self._alternatives else None

    @property
    def is_text(self) -> bool:
        """Whether any text is one of its strings."""
        return self.strings is None

    def member(self, name: str) -> SchemaView:
        """The schema of a member of an object, the same one each time."""
        for one in self._alternatives:
            members = one.get("properties")
            if isinstance(members, Mapping) and name in members:
                return self._view(name, members[name])
        for one in self._alternatives:
            if isinstance(one.get("additionalProperties"), Mapping):
                return self._view(None, one["additionalProperties"])
        return ANYTHING

    def item(self, index: int) -> SchemaView:
        """The schema of an item of a list, the same one each time."""
        for one in self._alternatives:
            first = one.get("prefixItems")
            if isinstance(first, list) and index < len(first):
                return self._view(index, first[index])
            if isinstance(one.get("items"), Mapping):
                return self._view(-1, one["items"])
        return ANYTHING

    def _view(self, place: str | int | None, schema: Any) -> SchemaView:
        if place not in self._within:
            self._within[place] = SchemaView(schema, self._document)
        return self._within[place]


class _UnknownError(Exception):
    """A schema that cannot be followed."""


ANYTHING = SchemaView(True)
"""The schema of any value."""


def _listed(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return listed if isinstance(listed, list) else None


def _types_of(schema: Mapping[str, Any]) -> frozenset[str]:
    listed = _listed(schema)
    given = schema.get("type")
    names = [given] if isinstance(given, str) else given if isinstance(given, list) else None
    types = TYPES
    if names is not None:
        types = frozenset(_NUMBERS.get(name, name) for name in names if isinstance(name, str)) & TYPES
    return types if listed is None else types & frozenset(map(type_of, listed))


def type_of(value: Any) -> str:
    """The type of a value in JSON."""
    if value is None:
        return "null"
    kinds = ((bool, "boolean"), (str, "string"), (int | float, "number"), (Mapping, "object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "array")
