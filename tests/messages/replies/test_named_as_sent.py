"""Whatever form a constraint has in a body, its error names what the client sent, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from .test_refusals import WRONG, refusal

OURS = ("structural_tag", "json_schema", "regex", "grammar", "choice", "elements", "tags")
"""Names of ours, which a client knows only if they are in the body."""


def formats(schema: Any) -> Iterator[dict[str, Any]]:
    """Forms of a `response_format` with a schema."""
    yield {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    yield {"type": "json_schema", "schema": schema}
    yield {"type": "json_object", "schema": schema}
    yield {"type": "json", "json": schema}
    yield {"type": "json", "value": schema}
    yield {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": schema}}


def schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Bodies of every interface with a schema in them."""
    for form in formats(schema):
        yield {"response_format": form}
        yield {"text": {"format": form}}
        yield {"output_config": {"format": form}}
        yield {"output_format": form}
    yield {"format": schema}
    yield {"json_schema": schema}
    yield {"guided_json": schema}
    yield {"structured_outputs": {"json": schema}}
    yield {"guided_decoding": {"json": schema}}
    yield {"guided_decoding_guide_type": "json_schema", "guided_decoding_guide": schema}
    yield {"grammar": {"type": "json", "value": schema}}
    yield {"grammar": {"type": "json_schema", "value": {"schema": schema}}}
    yield {"structural_tag": {"format": {"type": "json_schema", "json_schema": schema}}}
    yield {"extra_args": {"json_schema": schema}}
    yield {"vllm_xargs": {"json_schema": schema}}


def tools(schema: Any) -> Iterator[dict[str, Any]]:
    """Bodies of every interface with tools, the second of which is wrong."""
    right = {"type": "object"}
    function = {"type": "function", "function": {"name": "f", "parameters": right}}
    wrong = {"name": "g", "parameters": schema}
    yield {"tools": [function, {"type": "function", "function": wrong}]}
    yield {"tools": [function, {"type": "function", **wrong}]}  # Responses
    yield {
        "tools": [{"name": "f", "input_schema": right}, {"name": "g", "input_schema": schema}]
    }  # Anthropic
    yield {"functions": [{"name": "f", "parameters": right}, wrong]}


def texts() -> Iterator[dict[str, Any]]:
    """Bodies with a pattern or a grammar that cannot be read."""
    for key, text in (("regex", "("), ("grammar", "start: ("), ("ebnf", "root ::= (")):
        yield {"response_format": {"type": key, key: text}}
        yield {"response_format": {"type": key, "value": text}}
        yield {f"guided_{key}": text}
        yield {"structured_outputs": {key: text}}
    yield {"response_format": {"type": "regex", "pattern": "("}}
    yield {"ebnf": "root ::= ("}
    yield {"grammar": {"type": "regex", "value": "("}}
    yield {"guided_decoding": {"regex": "("}}
    yield {"guided_decoding_guide_type": "regex", "guided_decoding_guide": "("}
    yield {"guided_decoding_guide_type": "ebnf_grammar", "guided_decoding_guide": "root ::= ("}
    yield {"guided_choice": [5]}
    yield {"structured_outputs": {"choice": [5]}}


FAMILIES = [None, "qwen_3", "harmony"]


def check(body: dict[str, Any], family: str | None) -> None:
    error = refusal(body, family)
    place: Any = body
    for key in re.split(r"\.|(?=\[)", error["param"]):
        place = place[int(key[1:-1]) if key.startswith("[") else key]
    text, sent = error["message"], json.dumps(body)
    said = re.findall(r"\w+", text.removeprefix(error["param"]).partition("\n")[0].partition("#/")[0])
    assert not [name for name in OURS if name in said and f'"{name}"' not in sent]


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("body", [*schemas(WRONG), *texts()], ids=lambda body: str(body)[:60])
def test_a_constraint_is_named_by_its_place_in_the_body(body: dict[str, Any], family: str | None) -> None:
    check(body, family)


@pytest.mark.parametrize(
    "body", [*schemas("{"), *schemas('{"type": "float"}')], ids=lambda body: str(body)[:60]
)
def test_a_schema_as_text_is_named_by_its_place_in_the_body(body: dict[str, Any]) -> None:
    check(body, None)


def demanded(body: dict[str, Any], choice: str) -> dict[str, Any]:
    """The body with a choice in the words of its interface."""
    if "functions" in body:
        return {**body, "function_call": choice if choice == "auto" else {"name": "g"}}
    return {**body, "tool_choice": {"type": "any"} if choice == "any" else choice}


@pytest.mark.parametrize(
    ("choice", "family"),
    [(choice, family) for choice in ("required", "any") for family in FAMILIES]
    + [("auto", family) for family in FAMILIES if family],
)
@pytest.mark.parametrize("body", [*tools(WRONG)], ids=lambda body: str(body)[:60])
def test_a_tool_is_named_by_its_place_in_the_body(
    body: dict[str, Any], choice: str, family: str | None
) -> None:
    check(demanded(body, choice), family)
