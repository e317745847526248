"""Functions of Python as tools: from their signatures and docstrings."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable
from typing import Any

from ..errors import quoted
from .definitions import Definitions
from .docstrings import read_docstring
from .schemas import part_of, schema_of

_KINDS = inspect.Parameter


def tool_of(described: Any) -> dict[str, Any]:
    """A function, or a type of arguments, as a tool in OpenAI's form.

    described  a function or method: its name, the beginning of its docstring, and an object of its arguments,
               each described as the docstring says (in Google's, NumPy's or Sphinx's style); a class such as
               a pydantic model, dataclass or TypedDict: its name, its docstring, and its members

    Raises ValueError for what has no name or no schema.
    """
    name = getattr(described, "__name__", None)
    if not isinstance(name, str):
        raise ValueError(f"{quoted(described)} is no function, and no class with members")
    text = read_docstring(inspect.getdoc(described) or "").text if _has_own_text(described) else ""
    function: dict[str, Any] = {"name": name}
    if text:
        function["description"] = text
    return {"type": "function", "function": {**function, "parameters": schema_of(described)}}


def _has_own_text(described: Any) -> bool:
    """Whether the docstring is of the programmer: a dataclass without one gets its signature."""
    text = getattr(described, "__doc__", None)
    return isinstance(text, str) and not text.startswith(f"{described.__name__}(")


def arguments_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The schema of the arguments of a function as an object: a parameter without an annotation takes any
    value, one with a default may be left out, and `**rest` admits other names.

    Raises ValueError for `*rest` and for parameters that have no names for callers.
    """
    definitions = Definitions()
    descriptions = read_docstring(inspect.getdoc(function) or "").parameters
    properties: dict[str, Any] = {}
    required: list[str] = []
    rest: Any = False
    for parameter in _parameters(function):
        schema = {} if parameter.annotation is _KINDS.empty else part_of(parameter.annotation, definitions)
        if parameter.kind is _KINDS.VAR_KEYWORD:
            rest = schema or True
            continue
        if parameter.kind in (_KINDS.VAR_POSITIONAL, _KINDS.POSITIONAL_ONLY):
            raise ValueError(f"{quoted(function)} takes {parameter.name} by position: a call has names only")
        if parameter.name in descriptions:
            schema = {**schema, "description": descriptions[parameter.name]}
        properties[parameter.name] = schema | _default(parameter)
        if parameter.default is _KINDS.empty:
            required.append(parameter.name)
    whole: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": rest}
    return definitions.completed({**whole, "required": required} if required else whole)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except (TypeError, ValueError, NameError) as error:
        raise ValueError(f"{quoted(function)} has no signature that can be read: {error}") from None
    return [
        one.replace(annotation=hints.get(one.name, one.annotation)) for one in signature.parameters.values()
    ]


def _default(parameter: inspect.Parameter) -> dict[str, Any]:
    """The default of a parameter as a keyword, where it is JSON."""
    if parameter.default is _KINDS.empty:
        return {}
    try:
        json.dumps(parameter.default)
    except (TypeError, ValueError, RecursionError):
        return {}
    return {"default": parameter.default}
