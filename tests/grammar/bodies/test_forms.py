"""Structured output in the forms of other interfaces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.grammar import Grammar
from engine_sampler.grammar.bodies.structured import structured_parameters

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
EBNF = 'root ::= "yes" | "no"'


@pytest.mark.parametrize(
    ("body", "parameters"),
    [
        ({"format": "json"}, {"json_object": True}),
        ({"format": ""}, {}),
        ({"format": SCHEMA}, {"json_schema": SCHEMA}),
        ({"grammar": {"type": "json", "value": SCHEMA}}, {"json_schema": SCHEMA}),
        (
            {"grammar": {"type": "json_schema", "value": {"name": "x", "schema": SCHEMA}}},
            {"json_schema": SCHEMA},
        ),
        ({"grammar": {"type": "regex", "value": "a+"}}, {"regex": "a+"}),
        ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, {}),
        (
            {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}}},
            {"json_schema": SCHEMA},
        ),
        ({"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, {"json_schema": SCHEMA}),
        ({"output_format": {"type": "json_schema", "schema": SCHEMA}}, {"json_schema": SCHEMA}),
        ({"guided_decoding": {"json": SCHEMA}}, {"json_schema": SCHEMA}),
        ({"guided_decoding": {"json_object": True}}, {"json_object": True}),
        ({"guided_decoding": {"grammar": EBNF}}, {"grammar": EBNF}),
        ({"guided_decoding_guide_type": "json_object"}, {"json_object": True}),
        (
            {"guided_decoding_guide_type": "json_schema", "guided_decoding_guide": SCHEMA},
            {"json_schema": SCHEMA},
        ),
        ({"guided_decoding_guide_type": "ebnf_grammar", "guided_decoding_guide": EBNF}, {"grammar": EBNF}),
        (
            {"format": SCHEMA, "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
            {"json_schema": SCHEMA},
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else str(value),
)
def test_other_interfaces_are_understood(body: dict[str, Any], parameters: dict[str, Any]) -> None:
    found = SamplingParams.from_dict(body)
    assert {name: found[name] for name in parameters} == {
        name: json.dumps(value) if name == "json_schema" else value for name, value in parameters.items()
    }
    assert structured_parameters(dict(body)).keys() <= parameters.keys()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"format": "xml"}, "format='xml' is not allowed: 'json', or a JSON Schema"),
        (
            {"format": "json", "response_format": {"type": "text"}},
            "format=.* is not allowed beside response_format",
        ),
        ({"grammar": {"type": "gbnf", "value": EBNF}}, "grammar=.* is not allowed: a grammar, or an object"),
        ({"grammar": {"type": "regex", "value": 3}}, "grammar=.* is not allowed"),
        ({"grammar": {"type": "regex", "value": ""}}, "grammar=.* is not allowed: .* and a value"),
        ({"grammar": {"type": "json", "value": ""}}, "grammar=.* is not allowed: .* and a value"),
        ({"guided_decoding_guide_type": "regex", "guided_decoding_guide": ""}, "'regex' .* without a guide"),
        ({"text": {"schema": SCHEMA}}, "text.schema is not allowed: format or verbosity"),
        ({"guided_decoding": {"choice": ["a"]}}, "guided_decoding.choice is not allowed: one of json"),
        (
            {"guided_decoding_guide_type": "xml"},
            "guide_type='xml' is not allowed",
        ),
        (
            {"guided_decoding": {"json": SCHEMA}, "structured_outputs": {"regex": "a"}},
            "beside structured_outputs",
        ),
        ({"format": SCHEMA, "regex": "a+"}, "together"),
    ],
    ids=str,
)
def test_other_forms_are_refused_by_name(body: dict[str, Any], error: str) -> None:
    with pytest.raises(ParameterError, match=error):
        SamplingParams.from_dict(body)


def test_names_of_limits_and_stops_are_those_of_each_interface() -> None:
    assert SamplingParams.from_dict({"max_output_tokens": 3, "input": "x"}).max_tokens == 3
    assert SamplingParams.from_dict({"max_new_tokens": 3}).max_tokens == 3
    assert SamplingParams.from_dict({"min_new_tokens": 3}).min_tokens == 3
    assert SamplingParams.from_dict({"stop_sequences": ["a"]}).stop == ("a",)


# --- lazy grammars ---

LAZY = {"grammar_lazy": True, "grammar": 'root ::= "<t>" [a-z]+ "</t>"', "grammar_triggers": ["<t>"]}


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("free text", True),
        ("free text <t>abc</t>", True),
        ("<t>abc</t>", True),
        ("free text <t>ABC</t>", False),
        ("<t>abc</t> more", False),
        ("a <t", True),
    ],
)
@pytest.mark.parametrize(
    "trigger", ["<t>", {"type": 1, "value": "<t>"}, {"type": "word", "value": "<t>"}], ids=str
)
def test_a_lazy_grammar_holds_from_its_trigger_on(text: str, valid: bool, trigger: Any) -> None:
    params = SamplingParams.from_dict({**LAZY, "grammar_triggers": [trigger]})
    assert Grammar.from_structural_tag(params.structural_tag).check(text).valid is valid


def test_a_grammar_that_is_not_lazy_holds_from_the_beginning() -> None:
    assert SamplingParams.from_dict({**LAZY, "grammar_lazy": False}).grammar == LAZY["grammar"]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"grammar_triggers": []}, "grammar_triggers=.* a list of 1 to 256 words"),
        ({"grammar_triggers": [{"type": 2, "value": "<t>"}]}, "patterns are not supported"),
        ({"grammar_triggers": [{"type": "odd", "value": "<t>"}]}, "the type word or token"),
        ({"grammar_triggers": [""]}, "not allowed: a word"),
        ({"grammar_lazy": 1}, "grammar_lazy=1 is not allowed: true or false"),
        ({"grammar": ""}, "it needs one grammar or json_schema"),
        ({"json_schema": SCHEMA}, "it needs one grammar or json_schema"),
    ],
    ids=str,
)
def test_lazy_grammars_without_what_they_need_are_refused(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(ParameterError, match=error):
        SamplingParams.from_dict({**LAZY, **changes})
