"""Types as JSON Schemas without pydantic: what its `TypeAdapter` says, without titles."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import quoted
from .definitions import Definitions

Schema: typing.TypeAlias = "dict[str, Any]"

_SIMPLE: Mapping[Any, Schema] = {
    Any: {},
    object: {},
    None: {"type": "null"},
    types.NoneType: {"type": "null"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    decimal.Decimal: {"type": "number"},
    bytes: {"type": "string"},
    pathlib.Path: {"type": "string"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    uuid.UUID: {"type": "string", "format": "uuid"},
}

_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_WRAPPERS = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")


def read(described: Any, definitions: Definitions) -> Schema:
    """The schema of a type; of its classes, those with members are among `definitions`.

    Raises ValueError for types that it does not know.
    """
    return _Reader(definitions).schema(described)


class _Reader:
    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions

    def schema(self, described: Any) -> Schema:
        try:
            simple = _SIMPLE.get(described)
        except TypeError:  # not hashable
            simple = None
        if simple is not None:
            return dict(simple)
        origin = typing.get_origin(described)
        if origin is not None:
            return self._generic(described, origin, typing.get_args(described))
        if isinstance(described, type):
            return self._class(described)
        for attribute in ("__supertype__", "__value__", "__bound__"):  # NewType, an alias, a variable
            inner = getattr(described, attribute, None)
            if inner is not None:
                return self._part(inner)
        if isinstance(described, typing.TypeVar):
            return {}
        raise ValueError(f"{quoted(described)} is no type whose values have a JSON Schema")

    def _part(self, described: Any) -> Schema:
        """The schema of a type in another: one that says its own is asked."""
        from .schemas import part_of

        return part_of(described, self._definitions)

    # --- Generic types ---

    def _generic(self, described: Any, origin: Any, arguments: tuple[Any, ...]) -> Schema:
        if origin is typing.Literal:
            return _listed([one.value if isinstance(one, enum.Enum) else one for one in arguments])
        if origin is typing.Annotated:
            return self._annotated(arguments)
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self._part(one) for one in arguments]}
        if getattr(origin, "__name__", getattr(origin, "_name", None)) in _WRAPPERS:
            return self._part(arguments[0])
        if origin in _LISTS:
            return {"type": "array", "items": self._part(arguments[0])}
        if origin in _SETS:
            return {"type": "array", "items": self._part(arguments[0]), "uniqueItems": True}
        if origin is tuple:
            return self._tuple(arguments)
        if origin in _MAPPINGS:
            return self._mapping(*arguments)
        raise ValueError(f"{quoted(described)} is no type whose values have a JSON Schema")

    def _annotated(self, arguments: tuple[Any, ...]) -> Schema:
        """The first argument; a text behind it describes it."""
        schema = self._part(arguments[0])
        texts = [one for one in arguments[1:] if isinstance(one, str)]
        return {**schema, "description": texts[0]} if texts else schema

    def _tuple(self, arguments: tuple[Any, ...]) -> Schema:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self._part(arguments[0])}
        if arguments in ((), ((),)):
            return {"type": "array", "maxItems": 0}
        return _row([self._part(one) for one in arguments])

    def _mapping(self, key: Any, value: Any) -> Schema:
        schema: Schema = {"type": "object", "additionalProperties": self._part(value)}
        names = self._part(key)
        return schema if key in (str, int, Any) else {**schema, "propertyNames": names}

    # --- Classes ---

    def _class(self, described: type) -> Schema:
        build: Callable[[], Schema]
        if issubclass(described, enum.Enum):
            build = lambda: _listed([member.value for member in described])  # noqa: E731
        elif dataclasses.is_dataclass(described):
            build = lambda: self._dataclass(described)  # noqa: E731
        elif hasattr(described, "__required_keys__"):  # a TypedDict
            required = described.__required_keys__
            build = lambda: self._members(described, required)  # noqa: E731
        elif issubclass(described, tuple) and hasattr(described, "_fields"):
            return self._named_tuple(described)
        elif described in _LISTS or described is tuple:
            return {"type": "array"}
        elif described in _SETS:
            return {"type": "array", "uniqueItems": True}
        elif described in _MAPPINGS:
            return {"type": "object"}
        else:
            raise ValueError(f"{quoted(described)} is no type whose values have a JSON Schema")
        return self._definitions.reference(described, described.__name__, build)

    def _dataclass(self, described: Any) -> Schema:
        fields = [one for one in dataclasses.fields(described) if one.init]
        missing = dataclasses.MISSING
        required = {one.name for one in fields if one.default is missing and one.default_factory is missing}
        return self._members(described, required, [one.name for one in fields])

    def _members(self, described: Any, required: Any, names: list[str] | None = None) -> Schema:
        hints = _hints(described)
        chosen = list(hints) if names is None else names
        schema: Schema = {
            "type": "object",
            "properties": {name: self._part(hints[name]) for name in chosen},
        }
        needed = [name for name in chosen if name in required]
        return {**schema, "required": needed} if needed else schema

    def _named_tuple(self, described: Any) -> Schema:
        hints = _hints(described)
        schema = _row([self._part(hints.get(name, Any)) for name in described._fields])
        return {**schema, "minItems": len(described._fields) - len(described._field_defaults)}


def _hints(described: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(described, include_extras=True)
    except NameError as error:
        reason = f"names a type that is unknown where it is defined: {error}"
        raise ValueError(f"{quoted(described)} {reason}") from None


def _row(items: list[Schema]) -> Schema:
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def _listed(values: list[Any]) -> Schema:
    """A schema of some values. Raises ValueError for those that are not JSON, and for none at all."""
    if not values:
        raise ValueError("an enumeration without members has no values")
    try:
        json.dumps(values)
    except (TypeError, ValueError):
        raise ValueError(f"the values {quoted(values)} are not JSON") from None
    return {"enum": values}
