"""The functions that a request offers, and those that it may or must call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ....base.errors import quoted
from ....base.json_text import is_described
from ....contract import ParameterError
from ....params.bodies import mapping
from ..schemas import described_schema, without_additional_properties
from .custom import CustomInput, custom_input

_NAME = re.compile(r"(?=.{1,256}\Z)[\w.:/&-]+( [\w.:/&-]+)*")
_CHOICES = "auto, none, required, or a function of tools"
_ANY_OBJECT = {"type": "object"}
_PLAIN = {"any": "required", "auto": "auto", "none": "none"}


class Function(NamedTuple):
    """A function, and the schema of its arguments; `custom` is the text that a custom tool takes instead."""

    name: str
    schema: Any
    custom: CustomInput | None = None


class Tools(NamedTuple):
    """What a body says about tools: `tools` and `tool_choice` in OpenAI's form."""

    tools: Any
    choice: Any


def take_tools(body: dict[str, Any]) -> Tools:
    """The tools of a body, and the choice among them; removes their keys.

    OpenAI's older `functions` and `function_call` stand for them, and so does what Anthropic's
    `tool_choice` says (`disable_parallel_tool_use` becomes `parallel_tool_calls`). Raises `ParameterError`
    if an older and a newer key are given.
    """
    for new, old in (("tools", "functions"), ("tool_choice", "function_call")):
        value = body.pop(old, None)
        if value is None:
            continue
        if body.get(new) is not None:
            raise ParameterError(f"{old}={quoted(value)} is not allowed beside {new}, which replaces it")
        body[new] = value
    choice = body.pop("tool_choice", None)
    if isinstance(choice, Mapping) and choice.get("disable_parallel_tool_use") is True:
        body["parallel_tool_calls"] = False
    return Tools(body.pop("tools", None), _plain_choice(choice))


def _plain_choice(choice: Any) -> Any:
    """A choice in OpenAI's form: Mistral says "any" for "required", Anthropic `{"type": "any"}`."""
    kind = choice.get("type") if isinstance(choice, Mapping) else choice
    return _PLAIN.get(kind, choice) if isinstance(kind, str) else choice


def chosen_functions(tools: Any, choice: Any, strict: bool | None = None) -> tuple[list[Function], str]:
    """The functions that may be called under a `tool_choice`, and how: "auto", "required", or "named", with
    one function.

    strict  as in `tool_calls`

    Raises `ParameterError` for anything that is not allowed.
    """
    choice = _plain_choice(choice)
    if choice == "none":
        return [], "auto"
    functions = {name: _function(name, one, strict) for name, one in functions_of(tools).items()}
    if choice is None or choice == "auto":
        return list(functions.values()), "auto"
    if not functions:
        raise ParameterError("tool_choice requires a call, but tools has no function")
    if choice == "required":
        return list(functions.values()), "required"
    if not isinstance(choice, Mapping):
        raise ParameterError(f"tool_choice={quoted(choice)} is not allowed: {_CHOICES}")
    given = mapping("tool_choice", choice)
    if given.get("type") == "allowed_tools":
        return _allowed(mapping("tool_choice.allowed_tools", given.get("allowed_tools", given)), functions)
    return [functions[_name_of(given, functions, choice)]], "named"


def functions_of(tools: Any) -> dict[str, Mapping[str, Any]]:
    """The functions in `tools` by name, their schemas in `parameters` (Anthropic's: `input_schema`); of
    custom tools, the tools themselves."""
    if tools is not None and not isinstance(tools, list | tuple):
        raise ParameterError(f"tools={quoted(tools)} is not allowed: a list of tools")
    functions: dict[str, Mapping[str, Any]] = {}
    for given in tools or ():
        tool = _as_tool(given)
        plain = mapping("tools", tool)
        function = plain.get("function", plain.get("custom", tool))
        name = mapping("tools.function", function).get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            allowed = "a function with a name of up to 256 letters, digits and _ . : / & -, or words of these"
            raise ParameterError(f"tools={quoted(tool)} is not allowed: {allowed}")
        if name in functions:
            raise ParameterError(f"tools has two functions of the name {quoted(name)}")
        functions[name] = tool if plain.get("type") == "custom" else _with_schema(function)
    return functions


def _as_tool(tool: Any) -> Any:
    """A tool in OpenAI's form: a function of Python, or a class such as a pydantic model, becomes one."""
    if not is_described(tool):
        return tool
    from ....base.python_types import tool_of  # few tools are given so

    try:
        return tool_of(tool)
    except ValueError as error:
        raise ParameterError(f"tools={quoted(tool)} is not allowed: {error}") from None


def _with_schema(function: Mapping[str, Any]) -> Mapping[str, Any]:
    """A function whose `parameters` are a schema, wherever they are given."""
    schema = function.get("parameters", function.get("input_schema"))
    if is_described(schema):
        schema = described_schema("tools: the parameters", schema)
    return function if schema is function.get("parameters") else {**function, "parameters": schema}


def _function(name: str, given: Mapping[str, Any], strict: bool | None) -> Function:
    custom = custom_input(given)
    if custom is None:
        return Function(name, _schema(given, strict))
    return Function(name, True, custom)


def _schema(function: Mapping[str, Any], strict: bool | None) -> Any:
    schema = function.get("parameters")
    if strict is False or (strict is None and function.get("strict") is False) or schema is None:
        return _ANY_OBJECT
    if not isinstance(schema, Mapping | bool):
        allowed = "a JSON Schema, an object"
        raise ParameterError(f"tools: the parameters {quoted(schema)} are not allowed: {allowed}")
    return _of_objects(without_additional_properties(schema) if strict else schema)


def _of_objects(schema: Any) -> Any:
    """A schema of objects alone, which arguments are."""
    if schema is True:
        return _ANY_OBJECT
    if schema is False or schema.get("type") == "object":
        return schema
    if "type" not in schema:
        return {**_ANY_OBJECT, **schema}
    others = schema.get("allOf", [])
    return {**schema, "allOf": [*others, _ANY_OBJECT]} if isinstance(others, list) else schema


def _allowed(given: Mapping[str, Any], functions: Mapping[str, Function]) -> tuple[list[Function], str]:
    mode, tools = given.get("mode", "auto"), given.get("tools")
    if mode not in ("auto", "required") or not isinstance(tools, list | tuple) or not tools:
        allowed = "allowed_tools with the mode auto or required, and tools"
        raise ParameterError(f"tool_choice={quoted(given)} is not allowed: {allowed}")
    names = [_name_of(mapping("tool_choice.tools", one), functions, given) for one in tools]
    return [functions[name] for name in dict.fromkeys(names)], mode


def _name_of(given: Mapping[str, Any], functions: Mapping[str, Function], choice: Any) -> str:
    """The name in a reference to a function."""
    name = mapping("tool_choice.function", given.get("function", given.get("custom", given))).get("name")
    if not isinstance(name, str) or name not in functions:
        raise ParameterError(f"tool_choice={quoted(choice)} is not allowed: {_CHOICES}")
    return name


def json_schema_of(function: Function) -> Any:
    """The schema of a function's arguments in JSON. Raises `ParameterError` for a custom tool without."""
    custom = function.custom
    return function.schema if custom is None else custom.schema(function.name)


def call_list(functions: Sequence[Function], is_parallel: bool) -> dict[str, Any]:
    """The schema of calls as vLLM's server reads them from any model: a list of `{"name", "parameters"}`."""
    items = [_call(function) for function in functions]
    schema: dict[str, Any] = {"type": "array", "minItems": 1, "items": {"anyOf": items}}
    return schema if is_parallel else {**schema, "maxItems": 1}


def _call(function: Function) -> dict[str, Any]:
    """The schema of one call. An id of its own keeps the references of the parameters within them."""
    name, schema = function.name, json_schema_of(function)
    if isinstance(schema, Mapping):
        schema = {"$id": f"tool:{name}", "id": f"tool:{name}", **schema}  # "id" in draft 4
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "parameters": schema},
        "required": ["name", "parameters"],
        "additionalProperties": False,
    }
