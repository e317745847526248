"""The forms in which requests ask for structured output: OpenAI's, vLLM's, SGLang's and others'."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..contract import ParameterError, quoted
from .bodies import mapping

_QUOTES = "'"
_NAMES = {"json": "json_schema", "ebnf": "grammar"}
_STRUCTURED = ("json", "regex", "choice", "grammar", "ebnf", "json_object", "structural_tag")
_SWITCHES = ("disable_any_whitespace", "disable_additional_properties", "disable_fallback")
_OPTIONS = ("whitespace", "key_order", "lexer", "start")
_VALUES = ("enum", "const", "default", "examples")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_FORMATS = "text, json_object, json_schema, json, regex, grammar, ebnf or structural_tag"

_GUIDED = {f"guided_{name}": name for name in (*_STRUCTURED, "whitespace_pattern")}
_IGNORED = ("guided_decoding_backend", "backend", "_backend", "_backend_was_auto")


def structured_parameters(body: dict[str, Any]) -> dict[str, Any]:
    """The structured parameters that a request asks for; removes their keys from `body`.

    `response_format`, `structured_outputs`, its older form `guided_...`, SGLang's `ebnf`, and `tools` with a
    `tool_choice` that requires a call. As in vLLM, a required call takes the place of a `response_format`,
    which describes answers that are no calls; the other constraints are refused beside it.

    Raises `ParameterError` for forms that are unknown or contradict each other.
    """
    formatted = response_format(body.pop("response_format", {"type": "text"}))
    outputs = dict(mapping("structured_outputs", body.pop("structured_outputs", {})))
    guided = {name: body.pop(key) for key, name in _GUIDED.items() if key in body}
    outputs |= mapping("guided", guided)
    if body.get("ebnf") is not None:
        outputs["ebnf"] = body.pop("ebnf")
    for key in _IGNORED:
        body.pop(key, None)
    choice = body.pop("tool_choice", None)
    call = required_call(body.pop("tools", None), choice, body)
    if call:
        _refuse_constraints(outputs, choice)
    return _structured_outputs(outputs, call or formatted)


def _refuse_constraints(outputs: Mapping[str, Any], choice: Any) -> None:
    for name in _STRUCTURED:
        if outputs.get(name, False) not in (None, False):
            raise ParameterError(
                f"structured_outputs.{name} is not allowed with tool_choice={quoted(choice)}, which decides "
                "the text; allowed are a response_format, which has no effect then, and tool_choice='auto'"
            )


def response_format(value: Any) -> dict[str, Any]:
    """The structured parameter that a `response_format` stands for.

    OpenAI's types text, json_object and json_schema; vLLM's structural_tag; and json, regex, grammar and
    ebnf, whose value is in the key of that name, in `value`, `schema` or `pattern`.
    """
    kind = mapping("response_format", value).get("type")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"json_schema": value["schema"]} if value.get("schema") is not None else {"json_object": True}
    if kind == "json_schema":
        schema = mapping("response_format.json_schema", value.get("json_schema")).get("schema")
        if schema is not None:
            return {"json_schema": schema}
        raise ParameterError("response_format.json_schema has no schema")
    if kind == "structural_tag":
        return {"structural_tag": {k: v for k, v in value.items() if k != "type"}}
    if kind in ("json", "regex", "grammar", "ebnf"):
        for key in (kind, "value", "schema", "pattern", "grammar"):
            if value.get(key) is not None:
                return {_NAMES.get(kind, kind): value[key]}
        raise ParameterError(f"response_format={quoted(value)} is not allowed: it has no {kind}")
    raise ParameterError(f"response_format={quoted(value)} is not allowed: type {_FORMATS}")


def _structured_outputs(outputs: Mapping[str, Any], formatted: Mapping[str, Any]) -> dict[str, Any]:
    """The structured parameters of vLLM's `structured_outputs` and of a `response_format`: at most one
    constraint, and the switches that describe its JSON, whichever of the two it comes from."""
    given = {k: v for k, v in outputs.items() if v is not False}
    closed, compact = (
        given.pop("disable_additional_properties", False),
        given.pop("disable_any_whitespace", False),
    )
    given.pop("disable_fallback", None)  # there is only one engine to fall back to
    pattern = given.pop("whitespace_pattern", None)
    for key in _IGNORED:
        given.pop(key, None)
    for key in given:
        if key not in (*_STRUCTURED, *_OPTIONS):
            allowed = ", ".join((*_STRUCTURED, *_OPTIONS, *_SWITCHES, "whitespace_pattern"))
            raise ParameterError(
                f"structured_outputs.{quoted(key).strip(_QUOTES)} is not allowed: one of {allowed}"
            )
    parameters = _agreeing({_NAMES.get(k, k): v for k, v in given.items()}, formatted)
    has_json = any(name in parameters for name in ("json_schema", "json_object", "structural_tag"))
    if has_json and pattern is not None:
        parameters.setdefault("whitespace", pattern)
    elif has_json and compact:
        parameters.setdefault("whitespace", "compact")
    if closed and "json_schema" in parameters:
        parameters["json_schema"] = without_additional_properties(parameters["json_schema"])
    return parameters


def _agreeing(given: Mapping[str, Any], formatted: Mapping[str, Any]) -> dict[str, Any]:
    """Both together. Raises `ParameterError` if they give different values to one parameter."""
    for name, value in formatted.items():
        if name in given and given[name] != value:
            raise ParameterError(
                f"structured_outputs gives {name}={quoted(given[name])}, response_format {quoted(value)}"
            )
    return {**formatted, **given}


def without_additional_properties(schema: Any) -> Any:
    """A schema in which every object that names properties allows no others, unless it says so itself.

    Text is read as JSON. Raises `ParameterError` for text that is not JSON, and for a schema nested too deep.
    """
    try:
        return _closed(json.loads(schema) if isinstance(schema, str) else schema)
    except RecursionError:
        raise ParameterError("json_schema is nested too deep for disable_additional_properties") from None
    except ValueError as error:
        raise ParameterError(f"json_schema is not JSON: {error}") from None


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
    """The value of a keyword; that of `properties` and the like is no schema, but its members are."""
    if keyword in _MAPS and isinstance(value, Mapping):
        return {name: _closed(one) for name, one in value.items()}
    return _closed(value)


def required_call(tools: Any, choice: Any, body: Mapping[str, Any]) -> dict[str, Any]:
    """The structured parameter of a `tool_choice` that requires a call; {} for "auto" and "none".

    "required": a list of `{"name": ..., "parameters": {...}}`, one for each call, as vLLM's server reads it;
    with `parallel_tool_calls` false, of one call. A named function: its parameters alone.
    """
    if choice in (None, "auto", "none"):
        return {}
    functions = _functions(tools)
    if choice == "required":
        calls = [_call(name, schema) for name, schema in functions.items()]
        schema: dict[str, Any] = {"type": "array", "minItems": 1, "items": {"anyOf": calls}}
        if body.get("parallel_tool_calls") is False:
            schema["maxItems"] = 1
        return {"json_schema": schema}
    named = mapping("tool_choice", choice)
    name = mapping("tool_choice.function", named.get("function", named)).get("name")
    if not isinstance(name, str) or name not in functions:
        raise ParameterError(
            f"tool_choice={quoted(choice)} is not allowed: auto, none, required, or a function of tools"
        )
    return {"json_schema": functions[name]}


def _functions(tools: Any) -> dict[str, Any]:
    """The schema of the parameters of each function."""
    found: dict[str, Any] = {}
    for tool in tools if isinstance(tools, list | tuple) else ():
        function = mapping("tools", tool).get("function", tool)
        name = mapping("tools.function", function).get("name")
        if not isinstance(name, str):
            raise ParameterError(f"tools={quoted(tool)} is not allowed: a function with a name")
        found[name] = function.get("parameters") or {"type": "object", "properties": {}}
    if not found:
        raise ParameterError("tool_choice requires a call, but tools has no function")
    return found


def _call(name: str, schema: Any) -> dict[str, Any]:
    """The schema of one call. An id of its own keeps the references of the parameters within them."""
    parameters = schema
    if isinstance(schema, Mapping):
        parameters = {"$id": f"tool:{name}", "id": f"tool:{name}", **schema}  # "id" in draft 4
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "parameters": parameters},
        "required": ["name", "parameters"],
        "additionalProperties": False,
    }
