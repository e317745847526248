"""What schemas say about the types of values."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from engine_sampler import ParameterError
from engine_sampler.grammar import Grammar, tool_calls
from engine_sampler.grammar.limits import Limits
from engine_sampler.grammar.work import _CURRENT, counted_work
from engine_sampler.messages import MessageParser
from engine_sampler.messages.schemas import ANYTHING, READING, TYPES, _Views, view_of

CASES: list[tuple[Any, set[str], set[str] | None]] = [
    ({"type": "string"}, {"string"}, None),
    ({"type": "integer"}, {"number"}, set()),
    ({"type": ["string", "null"]}, {"string", "null"}, None),
    ({"enum": ["a", 1, None]}, {"string", "number", "null"}, {"a"}),
    ({"const": "a"}, {"string"}, {"a"}),
    ({"type": "string", "enum": ["a", "b", 1]}, {"string"}, {"a", "b"}),
    ({"anyOf": [{"enum": ["a"]}, {"type": "array"}]}, {"string", "array"}, {"a"}),
    ({"anyOf": [{"enum": ["a"]}, {"type": "string"}]}, {"string"}, None),
    ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, {"number", "boolean"}, set()),
    ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, {"number"}, set()),
    ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "object"}}}, {"object"}, set()),
    ({"type": "string", "anyOf": [{"type": "integer"}, {"enum": ["a", 1]}]}, {"string"}, {"a"}),
    ({"type": ["string", "null"], "$ref": "#/$defs/a", "$defs": {"a": {"const": "x"}}}, {"string"}, {"x"}),
    ({"type": "null", "oneOf": [{"$ref": "#"}]}, {"null"}, set()),
    ({"$ref": "#"}, set(TYPES), None),
    ({"$ref": "https://example.com"}, set(TYPES), None),
    ({"$ref": 5}, set(TYPES), None),
    ({"anyOf": [{"$ref": "#"}] * 60}, set(TYPES), None),
    ({}, set(TYPES), None),
    (True, set(TYPES), None),
    ({"type": 5}, set(TYPES), None),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_schema_says_which_types_and_strings_its_values_have(number: int) -> None:
    schema, types, strings = CASES[number]
    view = view_of(schema)
    assert view.types == types
    assert view.strings == strings


def test_members_and_items_have_schemas_of_their_own() -> None:
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"items": {"$ref": "#/$defs/c"}}},
        "additionalProperties": {"type": "null"},
        "$defs": {"c": {"type": "boolean"}},
    }
    view = view_of(schema)
    assert view.member("a").types == {"number"}
    assert view.member("x").types == {"null"}
    assert view.member("b").item(3).types == {"boolean"}
    assert view_of({"prefixItems": [{"type": "null"}], "items": False}).item(0).types == {"null"}
    assert view_of({"properties": [], "items": []}).item(0) is ANYTHING


def steps_for(schema: Any) -> int:
    """The steps in which a schema is read."""
    with counted_work(READING):
        view_of(schema)
        work = _CURRENT.get()
        assert work is not None
        return READING.reading - work.left


def test_a_schema_is_read_in_steps_in_proportion_to_its_size() -> None:
    integer = {"type": "integer"}

    def nested(size: int) -> Any:
        schema: Any = {"enum": [f"x{i}" for i in range(20 * size)]}
        for number in range(12):
            schema = {"anyOf": [schema, {"enum": [f"y{number}_{i}" for i in range(size)]}]}
        return schema

    for write in (
        lambda size: {"anyOf": [integer.copy() for _ in range(size)], "enum": [0] * 20 * size},
        lambda size: {"anyOf": [{"properties": {f"{i}": integer, "x": {}}} for i in range(size)]},
        lambda size: {"allOf": [{"enum": list(range(10))} for _ in range(size)]},
        nested,
    ):
        few, more, most = (steps_for(write(size)) for size in (100, 200, 400))
        assert more <= 2.2 * few
        assert most <= 2.2 * more


def test_choices_do_not_copy_what_stands_beside_them() -> None:
    schema: Any = {"anyOf": [{"type": "integer"} for _ in range(480)], **{f"k{i}": i for i in range(50_000)}}
    tracemalloc.start()
    try:
        view = view_of(schema)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert view.types == {"number"}


def test_schemas_are_found_when_a_parser_is_made_and_a_call_finds_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    argument = {"anyOf": [{"type": "integer"}] * 480, "enum": [0] * 10_000}
    tools = [{"name": "f", "parameters": {"properties": {"a": argument}}, "strict": False}]
    parser = MessageParser("qwen_3_5", tools)
    monkeypatch.setattr(_Views, "_known", None)
    parser.feed("<tool_call>\n<function=f>\n<parameter=a>\n5\n</parameter>\n</function>\n</tool_call>")
    assert parser.parts[0].text == '{"a": 5}'


def test_schemas_that_are_too_large_are_refused_by_the_names_of_the_tool_and_the_argument() -> None:
    large = {"properties": {f"{i}": {} for i in range(30_000)}}
    for parameters, at in ((large, ""), ({"properties": {"a": {}, "b": {"items": large}}}, " at 'b'")):
        tools = [{"name": "f", "parameters": parameters}]
        with pytest.raises(ParameterError) as error:
            MessageParser("qwen_3_5", tools)
        assert str(error.value) == (
            f"tools: the parameters of 'f' are too large{at}: all schemas that a parser reads may take "
            "100,000 steps, 4 for each schema, and one for each member and for each 8 listed values"
        )
        MessageParser("qwen_3", tools)  # JSON says itself of which types its values are
        tag = tool_calls("qwen_3_5", [{**tools[0], "strict": False}], "required")
        with pytest.raises(ParameterError, match="the parameters of 'f' are too large"):
            MessageParser(structural_tag=tag, tools=tools)
    several = [{"name": name, "parameters": {"items": {"enum": [0] * 500_000}}} for name in "fgh"]
    MessageParser("qwen_3_5", several[:1])
    with pytest.raises(ParameterError, match="the parameters of 'g' are too large:"):
        MessageParser("qwen_3_5", several)


def test_many_tools_with_small_schemas_are_read() -> None:
    tools = [{"name": f"f{number}", "parameters": {"properties": {"a": {}}}} for number in range(900)]
    tag = tool_calls("qwen_3_5", tools, "required")
    for parser in (MessageParser("qwen_3_5", tools), MessageParser(structural_tag=tag, tools=tools)):
        parser.feed("<tool_call>\n<function=f899>\n<parameter=a>\n5\n</parameter>\n</function>\n</tool_call>")
        assert (parser.parts[0].name, parser.parts[0].text) == ("f899", '{"a": "5"}')


X1 = "<tool_call>\n<function=f>\n<parameter=x1>\n5\n</parameter>\n</function>\n</tool_call>"
INTEGER = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"patternProperties": {"^x": INTEGER}}, 5),
        ({"patternProperties": {"^y": INTEGER}}, "5"),
        ({"patternProperties": {"^y": INTEGER, "[0-9]$": INTEGER}, "additionalProperties": False}, 5),
        ({"patternProperties": {"^.{1,200}$": INTEGER}, "additionalProperties": False}, 5),
        ({"properties": {"x1": {}}, "patternProperties": {"^x": INTEGER}}, 5),
        ({"properties": {"x1": {"type": "string"}}, "patternProperties": {"^x": {}}}, "5"),
        ({"patternProperties": {"^y": {}}, "additionalProperties": INTEGER}, 5),
        ({"unevaluatedProperties": INTEGER}, 5),
        ({"allOf": [{"patternProperties": {"^x": INTEGER}}]}, 5),
    ],
    ids=str,
)
def test_members_that_patterns_describe_are_read_as_masks_admit_them(schema: Any, value: Any) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", **schema}}}]
    assert Grammar.from_structural_tag(tool_calls("qwen_3_5", tools, "required")).check(X1).valid
    parser = MessageParser("qwen_3_5", tools)
    parser.feed(X1)
    assert parser.parts[0].value == {"x1": value}


def test_many_patterns_for_names_and_long_ones_are_read_in_little_work() -> None:
    patterns = [f"x{number}" for number in range(2_000)] + [f"(a.*){{{n}}}\\p{{L}}" for n in range(200)]
    schema = {"type": "object", "patternProperties": dict.fromkeys(patterns, INTEGER)}
    with counted_work(Limits(reading=30_000)):
        assert view_of(schema).member("x3").types == {"number"}
