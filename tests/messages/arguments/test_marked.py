"""Values between marks: what they are under their schemas."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.messages.events import DeviationError

from .reading import M3, arguments_of, properties

NULLABLE: Any = {"type": ["string", "null"]}
WAYS = {
    "qwen_xml": "<parameter=a>{}</parameter>",
    "seed_xml": "<parameter=a>{}</parameter>",
    "mimo_xml": "<parameter=a>{}</parameter>",
    "minimax_xml": '<parameter name="a">{}</parameter>',
    "glm_xml": "<arg_key>a</arg_key><arg_value>{}</arg_value>",
    "step3_xml": '<steptml:parameter name="a">{}</steptml:parameter>',
    "minimax_m3_xml": f"{M3}<a>{{}}{M3}</a>",
}
"""The member `a` in each style whose marks do not say types."""

TYPED = {
    "deepseek_xml": '<｜DSML｜parameter name="a" string="{}">{}</｜DSML｜parameter>',
    "kimi_k3_xml": '<|open|>argument key="a" type="{}"<|sep|>{}<|close|>argument<|sep|>',
    "cohere_xml": '<cofl:value name="a" type="{}">{}</cofl:value>',
}
OTHERS = {
    "deepseek_xml": ("true", "false"),
    "kimi_k3_xml": ("string", "number"),
    "cohere_xml": ("raw", "json"),
}
"""What says that a value is a string, and that it is none."""

VALUES = [
    ({"type": "boolean"}, "True", True),
    ({"type": "boolean"}, "false", False),
    ({"type": "null"}, "None", None),
    ({"type": "integer"}, '"5"', 5),
    ({"type": "integer"}, "5", 5),
    ({"type": "object"}, "{'x': True, 'y': [None]}", {"x": True, "y": [None]}),
    ({"type": "object"}, '{"x": {"y": "</"}}', {"x": {"y": "</"}}),
    ({"type": "object"}, '"{\\"x\\": 1}"', {"x": 1}),
    ({"type": "object"}, "{not json", "{not json"),
    ({"type": "array"}, "[city]", "[city]"),
    ({"type": "array"}, "[1, 'b',]", [1, "b"]),
    ({"type": "array", "items": {"type": "integer"}}, '["1"]', [1]),
    (NULLABLE, "null", None),
    (NULLABLE, "None", None),
    (NULLABLE, " null\n", None),
    (NULLABLE, "null and void", "null and void"),
    (NULLABLE, "nul", "nul"),
    (NULLABLE, "", ""),
    ({"type": "string"}, "null", "null"),
    ({"type": "string"}, "{'x': 1}", "{'x': 1}"),
    ({"type": "string"}, "a <b", "a <b"),
    ({"enum": ["C", "F", None]}, "C", "C"),
    ({"enum": ["C", "F", None]}, "null", None),
]


@pytest.mark.parametrize("style", WAYS)
@pytest.mark.parametrize(("schema", "text", "value"), VALUES)
def test_a_value_becomes_what_its_schema_asks_for(style: str, schema: Any, text: str, value: Any) -> None:
    assert arguments_of(style, WAYS[style].format(text), properties(a=schema)) == {"a": value}


@pytest.mark.parametrize("style", sorted(WAYS.keys() - {"minimax_m3_xml"}))
@pytest.mark.parametrize("text", ["5", "null", "True", "[1]", '{"x": 1}', " x "])
def test_values_without_schemas_are_texts(style: str, text: str) -> None:
    assert arguments_of(style, WAYS[style].format(text)) == {"a": text}


@pytest.mark.parametrize("style", TYPED)
@pytest.mark.parametrize(
    ("schema", "is_string", "text", "value"),
    [
        ({}, True, "null", "null"),
        ({}, False, "null", None),
        ({}, False, "True", True),
        ({}, False, "hello", "hello"),
        (NULLABLE, True, "null", "null"),
        (NULLABLE, False, "null", None),
        ({"type": "string"}, False, "null", "null"),
        ({"type": "string"}, False, "42", "42"),
        ({"type": "integer"}, True, "42", 42),
        ({"type": "integer"}, True, "many", "many"),
        ({"type": "object"}, False, "{'x': None}", {"x": None}),
        ({"enum": ["C", "F"]}, True, " C", " C"),
    ],
)
def test_marks_say_types_unless_the_schema_says_otherwise(
    style: str, schema: Any, is_string: bool, text: str, value: Any
) -> None:
    written = TYPED[style].format(OTHERS[style][not is_string], text)
    assert arguments_of(style, written, properties(a=schema)) == {"a": value}


@pytest.mark.parametrize("style", ["qwen_xml", "seed_xml"])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("\nParis\n", "Paris"),
        ("Paris", "Paris"),
        ("line 1\nline 2\n", "line 1\nline 2\n"),
        ("\nParis", "Paris"),
        ("\n\n", ""),
        ("\n\nx\n\n", "\nx\n"),
        ("\n", ""),
        ("", ""),
    ],
)
def test_line_breaks_around_a_value_are_left_out_if_there_is_one_before_it(
    style: str, text: str, value: str
) -> None:
    assert arguments_of(style, WAYS[style].format(text), properties(a={"type": "string"})) == {"a": value}


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("style", WAYS)
def test_a_value_that_is_too_long_to_be_held_back_is_a_text(style: str) -> None:
    for text in ("1" * 20_000, "[x" * 10_000):
        written = WAYS[style].format(text)
        assert arguments_of(style, written, properties(a={"type": ["array", "integer"]})) == {"a": text}


@pytest.mark.parametrize("style", [*WAYS, *TYPED])
def test_all_arguments_may_be_one_object(style: str) -> None:
    schema = properties(n={"type": "integer"}, s={"type": "string"})
    assert arguments_of(style, '\n{"n": "5", "s": 5}', schema) == {"n": 5, "s": "5"}


def test_json_that_does_not_go_on_as_it_began_is_a_deviation() -> None:
    with pytest.raises(DeviationError):
        arguments_of("glm_xml", WAYS["glm_xml"].format('{"x": 1} and more'), properties(a={"type": "object"}))
