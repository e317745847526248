"""Structured output in the forms of other interfaces, as OpenAI's and vLLM's keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.errors import quoted
from ...base.json_text import is_described
from ...contract import ParameterError
from ...params.bodies import is_unset, mapping

_LONGEST_NAME = 40
"""The longest name of a member that a message has as it is."""

_TRT_LLM = ("json", "json_object", "regex", "grammar", "structural_tag")
_GUIDES = {"json_schema": "json", "ebnf_grammar": "grammar"}
"""Kinds of TensorRT-LLM's server that have other names in its Python interface."""


def translate_forms(body: dict[str, Any]) -> None:
    """Replace keys of other interfaces in `body` by those that stand for them:

    format                    Ollama's: "json", or a schema
    grammar                   TGI's, if it is an object: `type` json, json_schema or regex, and `value`
    text                      that of OpenAI's Responses: its `format` is like a `response_format`
    output_config, output_format    Anthropic's: the same
    guided_decoding           TensorRT-LLM's: like vLLM's `structured_outputs`; and its server's
                              guided_decoding_guide_type with guided_decoding_guide

    Raises `ParameterError` for forms that are unknown, and for two that differ.
    """
    formats = [
        ("format", _ollama(body.pop("format", None))),
        ("text.format", _inner(body, "text", "verbosity")),
        ("output_config.format", _inner(body, "output_config", "effort")),
        ("output_format", body.pop("output_format", None)),
    ]
    for name, value in formats:
        _set(body, name, "response_format", value)
    if isinstance(body.get("grammar"), Mapping):
        key, value = _tgi(body.pop("grammar"))
        _set(body, "grammar", key, value)
    guided = _trt_llm(body)
    if guided:
        _set(body, "guided_decoding", "structured_outputs", guided)


def _set(body: dict[str, Any], name: str, key: str, value: Any) -> None:
    if value is None or value == {}:
        return
    if body.get(key) is not None and body[key] != value:
        raise ParameterError(f"{name}={quoted(value)} is not allowed beside {key}={quoted(body[key])}")
    body[key] = value


def _ollama(value: Any) -> Any:
    """The `response_format` of Ollama's `format`."""
    if value is None or value == "":
        return None
    if value == "json":
        return {"type": "json_object"}
    if isinstance(value, Mapping) or is_described(value):
        return {"type": "json_schema", "json_schema": {"schema": value}}
    raise ParameterError(f"format={quoted(value)} is not allowed: 'json', or a JSON Schema")


def _inner(body: dict[str, Any], key: str, other: str) -> Any:
    """The `format` in the object of a key, which is left out; `other` is a key for the server."""
    if not isinstance(body.get(key), Mapping):
        return None
    value = mapping(key, body.pop(key))
    for name in value:
        if name not in ("format", other):
            raise ParameterError(f"{_member(key, name)} is not allowed: format or {other}")
    return value.get("format")


def _tgi(grammar: Any) -> tuple[str, Any]:
    given = mapping("grammar", grammar)
    kind, value = given.get("type"), given.get("value")
    if kind == "regex" and isinstance(value, str) and value:
        return "regex", value
    if kind == "json_schema" and isinstance(value, Mapping):
        value = value.get("schema", value)
    if kind in ("json", "json_schema") and isinstance(value, str | bool | Mapping) and value != "":
        return "json_schema", value
    allowed = "a grammar, or an object with the type json, json_schema or regex and a value"
    raise ParameterError(f"grammar={quoted(grammar)} is not allowed: {allowed}")


def _trt_llm(body: dict[str, Any]) -> dict[str, Any]:
    guided = dict(mapping("guided_decoding", body.pop("guided_decoding", None) or {}))
    kind, guide = body.pop("guided_decoding_guide_type", None), body.pop("guided_decoding_guide", None)
    if kind not in (None, ""):
        named = _GUIDES.get(kind, kind) if isinstance(kind, str) else kind
        if named not in _TRT_LLM:
            allowed = ", ".join((*_TRT_LLM, *_GUIDES))
            raise ParameterError(
                f"guided_decoding_guide_type={quoted(kind)} is not allowed: one of {allowed}"
            )
        if named != "json_object" and is_unset(named, guide):
            raise ParameterError(f"guided_decoding_guide_type={quoted(kind)} is not allowed without a guide")
        guided[named] = True if named == "json_object" else guide
    for name in guided:
        if name not in _TRT_LLM:
            allowed = ", ".join(_TRT_LLM)
            raise ParameterError(f"{_member('guided_decoding', name)} is not allowed: one of {allowed}")
    return guided


def _member(key: str, name: Any) -> str:
    """How a message names a member of an object; its name may be anything."""
    is_plain = isinstance(name, str) and name.isidentifier() and len(name) <= _LONGEST_NAME
    return f"{key}.{name}" if is_plain else f"{key}[{quoted(name)}]"
