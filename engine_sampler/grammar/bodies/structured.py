"""The forms in which requests ask for structured output: OpenAI's, vLLM's, SGLang's and others'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.errors import quoted, warn_once
from ...base.json_text import is_described
from ...contract import ParameterError
from ...params.bodies import GUIDED, STRUCTURED, is_unset, mapping
from ...params.families import TOOL_FAMILIES, Reasoning
from ...registry import STRUCTURED_PARAMS
from .forms import translate_forms
from .lazy_grammars import take_lazy_grammar
from .schemas import without_additional_properties
from .tools import (
    call_list,
    chosen_functions,
    formatted_answer,
    take_tools,
    tool_calls,
)

_FREE_CALLS = (
    "calls of tools under tool_choice='auto' are not constrained, and a response_format beside them "
    "forbids them: tool_family, which says how the model that is served writes calls, is not given"
)
_QUOTES = "'"
_NAMES = {"json": "json_schema", "ebnf": "grammar"}
_SWITCHES = ("disable_any_whitespace", "disable_additional_properties", "disable_fallback")
_OPTIONS = ("whitespace", "numbers", "key_order", "unsupported", "draft", "resources", "lexer", "start")
_FORMATS = "text, json_object, json_schema, json, regex, grammar, ebnf or structural_tag"

_IGNORED = ("guided_decoding_backend", "backend", "_backend", "_backend_was_auto")


def structured_parameters(
    body: dict[str, Any],
    tool_family: str | None = None,
    reasoning: Reasoning = "disabled",
    preamble: bool = True,
) -> dict[str, Any]:
    """The structured parameters that a request asks for; removes their keys from `body`.

    `response_format`, `structured_outputs`, its older form `guided_...`, SGLang's `ebnf`, and `tools` with
    `tool_choice` (see `tool_parameters`); the forms of other interfaces (see `forms`), and llama.cpp's lazy
    grammars. Constraints that are empty are none (see `is_unset`). As in vLLM, a required call takes the
    place of a `response_format`, which describes answers without calls; the other constraints are refused
    beside it. Under "auto" and with a `tool_family`, an answer is either calls, or the JSON or text that is
    asked for. JSON and patterns come behind the thoughts of `tool_family` if its `reasoning` is not disabled.

    Raises `ParameterError` for forms that are unknown or contradict each other.
    """
    for key in [key for key in STRUCTURED_PARAMS if is_unset(key, body.get(key))]:
        body.pop(key, None)
    translate_forms(body)
    body |= take_lazy_grammar(body)
    formatted = response_format(body.pop("response_format", {"type": "text"}))
    outputs = {**mapping("structured_outputs", body.pop("structured_outputs", {})), **_take_guided(body)}
    if body.get("ebnf") is not None:
        outputs["ebnf"] = body.pop("ebnf")
    outputs = {name: value for name, value in outputs.items() if not is_unset(name, value)}
    for key in _IGNORED:
        body.pop(key, None)
    named = [f"structured_outputs.{name}" for name in STRUCTURED if _is_given(outputs, name)]
    named += [name for name in STRUCTURED_PARAMS if _is_given(body, name)]
    asked = take_tools(body)
    is_parallel = _is_parallel(body.pop("parallel_tool_calls", None))
    call = tool_parameters(
        *asked, is_parallel, tool_family, reasoning, is_free=not formatted and not named, preamble=preamble
    )
    if call and named:
        raise ParameterError(
            f"{named[0]} is not allowed with tool_choice={quoted(asked.choice)}, which decides the text; "
            "allowed are a response_format, which has no effect then, and tool_choice='auto'"
        )
    parameters = _structured_outputs(outputs, call or formatted)
    if call:
        return parameters
    if tool_family is None and asked.tools and asked.choice in (None, "auto"):
        warn_once(_FREE_CALLS)
    elif tool_family is not None and _may_call(*asked):
        return _beside_calls(parameters, asked, is_parallel, tool_family, reasoning)
    return _behind_thoughts(parameters, tool_family, reasoning)


def _take_guided(body: dict[str, Any]) -> dict[str, Any]:
    """The constraints in vLLM's older keys, which are removed. `guided_json: {}` beside others of them is
    none: some clients always send all of them."""
    given = {key: body.pop(key) for key in GUIDED if key in body}
    if given.get("guided_json") == {} and len(given.keys() - {"guided_whitespace_pattern"}) > 1:
        del given["guided_json"]
    return {GUIDED[key]: value for key, value in given.items() if not is_unset(key, value)}


def _beside_calls(
    parameters: dict[str, Any], asked: Any, is_parallel: bool, family: str, reasoning: Reasoning
) -> dict[str, Any]:
    """The parameters of a constraint on answers that are not calls; calls are in the form of the family."""
    content, rest = _content_of(parameters)
    if content is None:
        return parameters
    tag = tool_calls(
        family,
        asked.tools,
        asked.choice,
        parallel_tool_calls=is_parallel,
        reasoning=reasoning,
        answer=content,
    )
    return {**rest, "structural_tag": tag}


def _behind_thoughts(parameters: dict[str, Any], family: str | None, reasoning: Reasoning) -> dict[str, Any]:
    """The parameters of a constraint on the content, which follows the family's thoughts, or has marks."""
    entry = TOOL_FAMILIES.get(family or "")
    if family is None or entry is None:
        return parameters
    if entry.layout != "blocks" and (reasoning == "disabled" or entry.thinking is None):
        return parameters
    content, rest = _content_of(parameters)
    if content is None:
        return parameters
    return {**rest, "structural_tag": formatted_answer(family, content, reasoning)}


def _content_of(parameters: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The constraint among parameters as a format of structural tags, None if it cannot be one; and the
    others."""
    if parameters.get("json_object"):
        content: dict[str, Any] = {"type": "json_schema", "json_schema": {"type": "object"}}
    elif "json_schema" in parameters:
        content = {"type": "json_schema", "json_schema": parameters["json_schema"]}
    elif "regex" in parameters:
        content = {"type": "regex", "pattern": parameters["regex"]}
    else:
        return None, parameters
    return content, {k: v for k, v in parameters.items() if k not in ("json_object", "json_schema", "regex")}


def _may_call(tools: Any, choice: Any) -> bool:
    """Whether an answer may be a call, or none."""
    return bool(tools) and chosen_functions(tools, choice)[1] == "auto" and choice != "none"


def _is_given(outputs: Mapping[str, Any], name: str) -> bool:
    return outputs.get(name, False) not in (None, False)


def _is_parallel(value: Any) -> bool:
    """The switch `parallel_tool_calls`; None, its default, is on."""
    if value is not None and not isinstance(value, bool):
        raise ParameterError(f"parallel_tool_calls={quoted(value)} is not allowed: true or false")
    return value is not False


def response_format(value: Any) -> dict[str, Any]:
    """The structured parameter that a `response_format` stands for.

    OpenAI's types text, json_object and json_schema, whose schema may also be in `schema`, as in llama.cpp's
    bodies; vLLM's structural_tag; and json, regex, grammar and ebnf, whose value is in the key of that name,
    in `value`, `schema` or `pattern`. A type of Python stands for its schema.
    """
    if is_described(value):
        return {"json_schema": value}
    kind = mapping("response_format", value).get("type")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"json_schema": value["schema"]} if value.get("schema") is not None else {"json_object": True}
    if kind == "json_schema":
        named = value if value.get("json_schema") is None else value["json_schema"]
        schema = mapping("response_format.json_schema", named).get("schema")
        if not is_unset("json", schema):
            return {"json_schema": schema}
        raise ParameterError("response_format.json_schema has no schema")
    if kind == "structural_tag":
        return {"structural_tag": {k: v for k, v in value.items() if k != "type"}}
    if kind in ("json", "regex", "grammar", "ebnf"):
        for key in (kind, "value", "schema", "pattern", "grammar"):
            if not is_unset(kind, value.get(key)):
                return {_NAMES.get(kind, kind): value[key]}
        raise ParameterError(f"response_format={quoted(value)} is not allowed: it has no {kind}")
    raise ParameterError(f"response_format={quoted(value)} is not allowed: type {_FORMATS}")


def _structured_outputs(outputs: Mapping[str, Any], formatted: Mapping[str, Any]) -> dict[str, Any]:
    """The structured parameters of vLLM's `structured_outputs` and of a `response_format`: at most one
    constraint, and the switches that describe its JSON, whichever of the two it comes from."""
    requested = {k: v for k, v in outputs.items() if v is not False}
    closed, compact = (
        requested.pop("disable_additional_properties", False),
        requested.pop("disable_any_whitespace", False),
    )
    requested.pop("disable_fallback", None)  # there is only one engine to fall back to
    pattern = requested.pop("whitespace_pattern", None)
    for key in _IGNORED:
        requested.pop(key, None)
    for key in requested:
        if key not in (*STRUCTURED, *_OPTIONS):
            allowed = ", ".join((*STRUCTURED, *_OPTIONS, *_SWITCHES, "whitespace_pattern"))
            raise ParameterError(
                f"structured_outputs.{quoted(key).strip(_QUOTES)} is not allowed: one of {allowed}"
            )
    parameters = _agreeing({_NAMES.get(k, k): v for k, v in requested.items()}, formatted)
    has_json = any(name in parameters for name in ("json_schema", "json_object", "structural_tag"))
    if has_json and pattern is not None:
        parameters.setdefault("whitespace", pattern)
    elif has_json and compact:
        parameters.setdefault("whitespace", "compact")
    if closed and "json_schema" in parameters:
        parameters["json_schema"] = without_additional_properties(parameters["json_schema"])
    return parameters


def _agreeing(structured: Mapping[str, Any], formatted: Mapping[str, Any]) -> dict[str, Any]:
    """Both together. Raises `ParameterError` if they give different values to one parameter."""
    for name, value in formatted.items():
        if name in structured and structured[name] != value:
            raise ParameterError(
                f"structured_outputs gives {name}={quoted(structured[name])}, response_format {quoted(value)}"
            )
    return {**formatted, **structured}


def tool_parameters(
    tools: Any,
    choice: Any,
    is_parallel: bool,
    family: str | None,
    reasoning: Reasoning,
    *,
    is_free: bool,
    preamble: bool = True,
) -> dict[str, Any]:
    """The structured parameter of `tools` and `tool_choice`.

    family   how the model writes calls, a name in `TOOL_FAMILIES`: then `structural_tag`, also for "auto".
             None, with "required": `json_schema`, a list of `{"name": ..., "parameters": {...}}`, as vLLM's
             server reads it; with a named function: its parameters alone; with "auto" and "none": {}
    is_free  whether nothing else constrains the text: "auto" and "none" constrain it then
    preamble as in `tool_calls`
    """
    is_forced = choice not in (None, "auto", "none")
    if not is_forced and (family is None or not is_free or not tools):
        return {}
    if family is not None:
        tag = tool_calls(
            family, tools, choice, parallel_tool_calls=is_parallel, reasoning=reasoning, preamble=preamble
        )
        return {"structural_tag": tag}
    functions, how = chosen_functions(tools, choice)
    if how == "auto":
        return {}
    if len(functions) == 1 and functions[0].custom is not None:
        return functions[0].custom.parameters
    return {"json_schema": functions[0].schema if how == "named" else call_list(functions, is_parallel)}
