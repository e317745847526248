"""The forms in which requests ask for structured output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.grammar.bodies.schemas import without_additional_properties
from engine_sampler.grammar.grammar import Grammar
from engine_sampler.params import SamplingParams

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
CLOSED = {**SCHEMA, "additionalProperties": False}
EBNF = 'root ::= "yes" | "no"'


def structured(body: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a request, with a schema as an object."""
    found = {k: v for k, v in SamplingParams.from_dict(body).given.items() if k != "order"}
    if isinstance(found.get("json_schema"), str):
        found["json_schema"] = json.loads(found["json_schema"])
    return {k: v for k, v in found.items() if not k.endswith("_cut")}


@pytest.mark.parametrize(
    ("body", "parameters"),
    [
        ({"guided_json": SCHEMA}, {"json_schema": SCHEMA}),
        ({"guided_regex": "a+", "guided_decoding_backend": "outlines"}, {"regex": "a+"}),
        ({"guided_choice": ["a", "b"]}, {"choice": ("a", "b")}),
        ({"guided_grammar": EBNF}, {"grammar": EBNF}),
        (
            {"guided_json": SCHEMA, "guided_whitespace_pattern": " ?"},
            {"json_schema": SCHEMA, "whitespace": " ?"},
        ),
        ({"ebnf": EBNF}, {"grammar": EBNF}),
        ({"response_format": {"type": "regex", "pattern": "a+"}}, {"regex": "a+"}),
        ({"response_format": {"type": "regex", "value": "a+"}}, {"regex": "a+"}),
        ({"response_format": {"type": "grammar", "grammar": EBNF}}, {"grammar": EBNF}),
        ({"response_format": {"type": "ebnf", "ebnf": EBNF}}, {"grammar": EBNF}),
        ({"response_format": {"type": "json", "value": SCHEMA}}, {"json_schema": SCHEMA}),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, {"json_schema": SCHEMA}),
        ({"response_format": {"type": "json_schema", "schema": SCHEMA}}, {"json_schema": SCHEMA}),
        (
            {
                "structured_outputs": {
                    "json": SCHEMA,
                    "disable_any_whitespace": True,
                    "disable_fallback": True,
                }
            },
            {"json_schema": SCHEMA, "whitespace": "compact"},
        ),
        (
            {"structured_outputs": {"json": SCHEMA, "whitespace_pattern": "[ \n]?"}},
            {"json_schema": SCHEMA, "whitespace": "[ \n]?"},
        ),
        (
            {
                "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
                "structured_outputs": {"whitespace_pattern": " ?", "disable_additional_properties": True},
            },
            {"json_schema": CLOSED, "whitespace": " ?"},
        ),
        (
            {"response_format": {"type": "json_object"}, "guided_whitespace_pattern": " ?"},
            {"json_object": True, "whitespace": " ?"},
        ),
        ({"structured_outputs": {"regex": "a", "disable_any_whitespace": True}}, {"regex": "a"}),
        (
            {"structured_outputs": {"json": SCHEMA, "disable_additional_properties": True}},
            {"json_schema": CLOSED},
        ),
        (
            {"structured_outputs": {"json": SCHEMA, "key_order": "schema", "whitespace": 3, "numbers": 9}},
            {"json_schema": SCHEMA, "key_order": "schema", "whitespace": 3, "numbers": 9},
        ),
        (
            {"structured_outputs": {"json": SCHEMA, "draft": "7", "resources": "{}"}},
            {"json_schema": SCHEMA, "draft": "7", "resources": "{}"},
        ),
        (
            {"structured_outputs": {"grammar": 'top: "a"', "start": "top", "lexer": "contextual"}},
            {"grammar": 'top: "a"', "start": "top", "lexer": "contextual"},
        ),
        ({"tools": [], "tool_choice": "auto"}, {}),
        ({"tools": [{"function": {"name": "f"}}], "tool_choice": "none"}, {}),
    ],
)
def test_each_form_becomes_parameters(body: dict[str, Any], parameters: dict[str, Any]) -> None:
    in_order = {"key_order": "schema"} if "json_schema" in parameters else {}
    assert structured(body) == {**parameters, **in_order}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"response_format": {"type": "regex"}}, "it has no regex"),
        ({"tool_choice": "required"}, "tools has no function"),
        ({"tools": [{"function": {}}], "tool_choice": "required"}, "a function with a name"),
        (
            {"tools": [{"function": {"name": "f"}}], "tool_choice": {"function": {"name": "g"}}},
            "or a function of tools",
        ),
        (
            {"tools": [{"function": {"name": "f"}}], "tool_choice": {"function": {"name": ["f"]}}},
            "or a function of tools",
        ),
        (
            {
                "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
                "structured_outputs": {"json": CLOSED},
            },
            "structured_outputs gives json_schema=.*, response_format",
        ),
        ({"whitespace": "compact"}, "whitespace='compact' is not allowed here: it needs one of json_schema"),
        (
            {"regex": "a", "lexer": "contextual"},
            "lexer='contextual' is not allowed here: it needs one of grammar",
        ),
        ({"json_schema": "{}", "whitespace": -1}, "whitespace=-1 is not allowed"),
        ({"guided_json": SCHEMA, "guided_regex": "a"}, "not allowed together"),
        (
            {"tools": [{"name": "f"}], "tool_choice": "required", "guided_json": SCHEMA},
            "structured_outputs.json is not allowed with tool_choice='required'",
        ),
        (
            {"tools": [{"name": "f"}], "tool_choice": {"name": "f"}, "ebnf": EBNF},
            "structured_outputs.ebnf is not allowed with tool_choice",
        ),
        (
            {"tools": [{"name": "f"}], "tool_choice": "required", "regex": "a"},
            "^regex is not allowed with tool_choice='required'",
        ),
        ({"tools": [{"name": "f"}], "tool_choice": "some"}, "tool_choice='some' is not allowed: auto, none"),
        (
            {"tools": [{"name": "f", "parameters": "{}"}], "tool_choice": "required"},
            "tools: the parameters '{}' are not allowed: a JSON Schema",
        ),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls='no' is not allowed: true or false"),
        (
            {"tools": [{"name": "f"}], "functions": [{"name": "g"}]},
            "functions=.* is not allowed beside tools, which replaces it",
        ),
    ],
)
def test_other_forms_are_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        SamplingParams.from_dict(body)


WEATHER = {
    "type": "object",
    "properties": {"place": {"$ref": "#/$defs/place"}},
    "required": ["place"],
    "$defs": {"place": {"enum": ["Rome", "Oslo"]}},
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "stop"}},
]


def grammar_of(choice: Any, **more: Any) -> Grammar:
    body = {"tools": TOOLS, "tool_choice": choice, **more}
    return Grammar.from_json_schema(SamplingParams.from_dict(body).json_schema)


EMPTY = {"json_schema": "", "regex": "", "grammar": "", "choice": [], "structural_tag": "", "ebnf": ""}
GUIDED = {
    "guided_json": {},
    "guided_regex": "",
    "guided_choice": [],
    "guided_grammar": "",
    "guided_json_object": False,
}


@pytest.mark.parametrize(
    "body",
    [
        *({key: value} for key, value in EMPTY.items()),
        *({key: None} for key in EMPTY),
        EMPTY,
        {"structured_outputs": {"json": "", "regex": "", "choice": [], "grammar": "", "structural_tag": ""}},
        GUIDED,
        {**GUIDED, "guided_json": "", "guided_whitespace_pattern": ""},
        {"guided_decoding": {"json": "", "regex": None, "grammar": ""}},
        {"guided_decoding_guide_type": "", "guided_decoding_guide": ""},
        {"format": ""},
        {"extra_args": EMPTY},
    ],
    ids=str,
)
def test_empty_text_and_null_are_no_constraint(body: dict[str, Any]) -> None:
    assert structured(body) == {}
    assert structured({"regex": "a", **body} if "regex" not in body else {**body, "regex": "a"}) == {
        "regex": "a"
    }


def test_an_empty_schema_is_any_json_unless_it_is_one_of_all_the_older_keys() -> None:
    for body in ({"json_schema": {}}, {"guided_json": {}}, {"structured_outputs": {"json": {}}}):
        assert SamplingParams.from_dict(body).json_schema == "{}"
    assert structured({**GUIDED, "guided_regex": "a"}) == {"regex": "a"}


def test_a_form_that_says_what_it_is_needs_a_value() -> None:
    with pytest.raises(ParameterError, match="it has no regex"):
        SamplingParams.from_dict({"response_format": {"type": "regex", "value": ""}})
    with pytest.raises(ParameterError, match="has no schema"):
        SamplingParams.from_dict({"response_format": {"type": "json_schema", "json_schema": {"schema": ""}}})


def test_a_required_call_is_a_list_of_calls_with_their_parameters() -> None:
    grammar = grammar_of("required")
    call = '{"name": "weather", "parameters": {"place": "Rome"}}'
    for text in (f"[{call}]", f'[{call}, {{"name": "stop", "parameters": {{}}}}]'):
        assert grammar.check(text).valid
    for text in (
        "[]",
        "Hello",
        call,
        '[{"name": "weather", "parameters": {"place": "Bonn"}}]',
        '[{"name": "x"}]',
    ):
        assert not grammar.check(text).valid


@pytest.mark.parametrize(
    "ignored",
    [
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
        {"type": "regex", "pattern": "a"},
    ],
)
def test_a_required_call_takes_the_place_of_a_response_format(ignored: dict[str, Any]) -> None:
    body = {"tools": TOOLS, "tool_choice": "required"}
    assert structured({**body, "response_format": ignored}) == structured(body)
    switched = {**body, "response_format": ignored, "structured_outputs": {"disable_any_whitespace": True}}
    assert structured(switched) == {**structured(body), "whitespace": "compact"}


@pytest.mark.parametrize("family", [None, "hermes"])
def test_functions_and_function_call_are_tools_and_a_choice_among_them(family: str | None) -> None:
    functions = [tool["function"] for tool in TOOLS]
    for older, choice in (("auto", "auto"), ("none", "none"), ({"name": "weather"}, TOOLS[0])):
        given = SamplingParams.from_dict({"functions": functions, "function_call": older}, tool_family=family)
        assert given == SamplingParams.from_dict({"tools": TOOLS, "tool_choice": choice}, tool_family=family)


def test_calls_under_auto_are_free_where_something_else_constrains_the_text() -> None:
    body = {"tools": TOOLS, "tool_choice": "auto", "regex": "a+"}
    assert SamplingParams.from_dict(body, tool_family="hermes").structural_tag is None


def test_parallel_calls_can_be_switched_off() -> None:
    call = '{"name": "stop", "parameters": {}}'
    assert not grammar_of("required", parallel_tool_calls=False).check(f"[{call}, {call}]").valid


def test_a_named_function_requires_its_parameters() -> None:
    grammar = grammar_of({"type": "function", "function": {"name": "weather"}})
    assert grammar.check('{"place": "Oslo"}').valid
    assert not grammar.check('{"place": "Bonn"}').valid


def test_only_objects_that_name_properties_are_closed() -> None:
    schema = {
        "items": {"properties": {"a": {"type": "object"}}},
        "properties": {"b": True},
        "additionalProperties": True,
    }
    closed = {"items": {"properties": {"a": {"type": "object"}}, "additionalProperties": False}}
    assert without_additional_properties(schema) == {**schema, **closed}
    assert without_additional_properties(json.dumps(schema)) == {**schema, **closed}


def test_values_in_a_schema_are_not_closed() -> None:
    value = {"properties": {"a": {"properties": {}}}}
    schema = {
        "properties": {"enum": {"properties": {}}, "properties": {"const": value}},
        "enum": [value],
        "default": value,
        "examples": [value],
    }
    assert without_additional_properties(schema) == {
        **schema,
        "properties": {
            "enum": {"properties": {}, "additionalProperties": False},
            "properties": {"const": value},
        },
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "body",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
        {"guided_json": SCHEMA},
        {"structured_outputs": {"json": SCHEMA}},
        {"json_schema": SCHEMA},
    ],
)
def test_bodies_say_what_becomes_of_unsupported_keywords(body: dict[str, Any]) -> None:
    assert "unsupported" not in structured(body)
    assert structured({**body, "unsupported": "ignore"})["unsupported"] == "ignore"
    with pytest.raises(ParameterError, match="unsupported='maybe' is not allowed"):
        SamplingParams.from_dict({**body, "unsupported": "maybe"})
