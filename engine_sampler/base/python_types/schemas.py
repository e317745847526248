"""`schema_of`: the JSON Schema of a type."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

from ..errors import INTERRUPTIONS, quoted, text_of
from ..json_text import is_described
from .docstrings import read_docstring


def schema_of(described: Any) -> dict[str, Any]:
    """The JSON Schema of a type: of a function, that of its arguments.

    described  a class that says its own by `model_json_schema`, as pydantic's models do, or a `TypeAdapter`;
               a dataclass, `TypedDict`, `NamedTuple`, `Enum`, `Literal`, union, `list[...]` and the like, or
               a builtin type: what pydantic's `TypeAdapter` says of it; a function or method: an object of
               its arguments

    Raises ValueError for anything else, for types whose values are not JSON, and where pydantic is missing.
    """
    if not is_described(described):
        raise ValueError(f"{quoted(described)} is not a type whose values have a JSON Schema")
    if inspect.isroutine(described):
        return _arguments_of(described)
    own = _own(described)
    return _called(own, described) if own is not None else _pydantic(described)


def _own(described: Any) -> Callable[[], Any] | None:
    """What tells the schema of a model of pydantic's or one of its adapters; None for other types."""
    method: Any = None
    if isinstance(described, type):
        method = getattr(described, "model_json_schema", None)
        if method is None and hasattr(described, "__fields__"):
            method = getattr(described, "schema", None)  # pydantic 1
    elif type(described).__name__ == "TypeAdapter":
        method = getattr(described, "json_schema", None)
    return method if callable(method) else None


def _called(method: Callable[[], Any], described: Any) -> dict[str, Any]:
    try:
        schema = method()
    except INTERRUPTIONS:
        raise
    except BaseException as error:
        raise ValueError(f"{quoted(described)} has no JSON Schema: {text_of(error)}") from error
    if not isinstance(schema, dict):
        raise ValueError(f"{quoted(described)} gives {quoted(schema)} as its JSON Schema, no object")
    return schema


def _pydantic(described: Any) -> dict[str, Any]:
    """What pydantic says of a type."""
    if importlib.util.find_spec("pydantic") is None:
        needed = "needs pydantic: pip install pydantic"
        raise ValueError(f"the JSON Schema of {quoted(described)} {needed}")
    import pydantic  # type: ignore[import-not-found,unused-ignore]
    from pydantic.json_schema import GenerateJsonSchema  # type: ignore[import-not-found,unused-ignore]

    class Quiet(GenerateJsonSchema):  # type: ignore[misc,unused-ignore]
        """A default that is not JSON is left out without a warning."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    return _called(lambda: pydantic.TypeAdapter(described).json_schema(schema_generator=Quiet), described)


_KINDS = inspect.Parameter


def _arguments_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The schema of the arguments of a function as an object: a parameter without an annotation takes any
    value, one with a default may be left out, and `**rest` admits other names. A parameter is described as
    the docstring says.

    Raises ValueError for `*rest` and for parameters that have no names for callers.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{quoted(function)} has no signature that can be read: {error}") from None
    for parameter in parameters:
        if parameter.kind in (_KINDS.VAR_POSITIONAL, _KINDS.POSITIONAL_ONLY):
            raise ValueError(f"{quoted(function)} takes {parameter.name} by position: a call has names only")
    schema = _pydantic(function)
    descriptions = read_docstring(inspect.getdoc(function) or "").parameters
    for name, one in schema.get("properties", {}).items():
        one.pop("title", None)  # pydantic makes it of the name
        if name in descriptions:
            one["description"] = descriptions[name]
    return schema
