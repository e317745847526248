"""Strings, constants and names in calls: masks admit them as the parser reads them."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar import TOOL_FAMILIES, tool_calls
from engine_sampler.grammar.errors import GrammarError, UnsupportedKeywordError
from engine_sampler.grammar.grammar import Grammar

K3 = '<|open|>argument key="a" type="string"<|sep|>{}<|close|>argument<|sep|>'
M3 = "]<]minimax[>["
STRINGS = {
    "qwen_xml": "<parameter=a>{}</parameter>",
    "seed_xml": "<parameter=a>{}</parameter>",
    "mimo_xml": "<parameter=a>{}</parameter>",
    "minimax_xml": '<parameter name="a">{}</parameter>',
    "deepseek_xml": '<｜DSML｜parameter name="a" string="true">{}</｜DSML｜parameter>',
    "deepseek_v4_1_xml": '<｜DSML｜ parameter name="a" string="true">{}</｜DSML｜ parameter>',
    "glm_xml": "<arg_key>a</arg_key><arg_value>{}</arg_value>",
    "kimi_k3_xml": K3,
    "step3_xml": '<steptml:parameter name="a">{}</steptml:parameter>',
    "cohere_xml": '<cofl:value name="a" type="raw">{}</cofl:value>',
    "minimax_m3_xml": f"{M3}<a>{{}}{M3}</a>",
    "gemma": '{{a:<|"|>{}<|"|>}}',
    "pythonic": "a='{}'",
}
"""The argument `a`, a string, in each style."""
LIMITED = (
    {"enum": ["C", "F"]},
    {"const": "F"},
    {"pattern": "^[CF]$"},
    {"maxLength": 1},
    {"not": {"const": " F"}},
)


def admits(style: str, text: str, **properties: Any) -> bool:
    schema = {"type": "object", "properties": properties}
    form = {"type": "json_schema", "json_schema": schema, "style": style}
    return bool(Grammar.from_structural_tag({"type": "structural_tag", "format": form}).check(text).valid)


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("style", STRINGS)
@pytest.mark.parametrize("limit", LIMITED)
def test_white_space_around_a_string_is_a_part_of_it(style: str, limit: Any) -> None:
    schema = {"type": "string", **limit}
    assert admits(style, STRINGS[style].format("F"), a=schema)
    for text in (" F", "F " if "not" not in limit else " F"):
        assert not admits(style, STRINGS[style].format(text), a=schema), text


@pytest.mark.parametrize("style", ["qwen_xml", "seed_xml"])
@pytest.mark.parametrize("limit", LIMITED)
def test_a_line_break_before_a_string_and_one_after_it_are_none_of_it(style: str, limit: Any) -> None:
    schema = {"type": "string", **limit}
    assert admits(style, STRINGS[style].format("\nF\n"), a=schema)
    assert admits(style, STRINGS[style].format("F\n"), a=schema) is ("not" in limit)
    assert admits(style, STRINGS[style].format("\n\nF\n"), a=schema) is ("not" in limit)


@pytest.mark.parametrize("style", ["qwen_xml", "glm_xml", "minimax_m3_xml"])
def test_where_no_mark_says_a_type_only_null_is_told_from_limited_strings(style: str) -> None:
    schema = {"type": ["string", "integer", "null"], "minLength": 2}
    for text, valid in (("null", True), ("55", True), ("5", False), ("", False)):
        assert admits(style, STRINGS[style].format(text), a=schema) is valid, text


@pytest.mark.parametrize(
    ("style", "words"),
    [
        ("qwen_xml", ("True", "true", "None", "null")),
        ("seed_xml", ("True", "true", "None", "null")),
        ("mimo_xml", ("True", "true", "None", "null")),
        ("glm_xml", ("true", "null")),
        ("minimax_xml", ("true", "null")),
    ],
)
def test_constants_are_those_that_templates_write(style: str, words: tuple[str, ...]) -> None:
    for word in ("True", "true", "None", "null", "False", "false"):
        text = STRINGS[style].format(word)
        assert admits(style, text, a={"enum": [True, None]}) is (word in words), word


def test_a_string_is_no_constant() -> None:
    schema = {"type": "string", "enum": ["null", "true"]}
    for style in ("gemma", "seed_xml", "qwen_xml", "pythonic"):
        assert admits(style, STRINGS[style].format("null"), a=schema)
        assert not admits(style, STRINGS[style].format("None"), a=schema)


PYTHON = [
    ("a='x'", True),
    ('a="x"', True),
    ("a='line 1\nline 2'", True),
    ("a='say \"hi\"'", True),
    ("a='it\\'s'", True),
    ("a='it's'", False),
    ("b=True, c=[True, None]", True),
    ("b=true", False),
    ('c={"x": true, "y": [null, "z"]}', True),
    ("c=[{'x': True}, 'y']", True),
    ("c=['it's']", False),
]


@pytest.mark.parametrize(("text", "valid"), PYTHON)
def test_literals_of_python_are_those_that_templates_write(text: str, valid: bool) -> None:
    assert admits("pythonic", text, a={"type": "string"}, b={"type": "boolean"}) is valid


def test_seed_writes_objects_as_python_does() -> None:
    for text in ("{'x': True, 'y': ['a', None]}", '{"x": true, "y": ["a", null]}'):
        assert admits("seed_xml", STRINGS["seed_xml"].format(text), a={"type": "object"})
    assert not admits("qwen_xml", STRINGS["qwen_xml"].format("{'x': 1}"), a={"type": "object"})


def test_a_string_does_not_contain_what_begins_another_argument() -> None:
    schemas = {"a": {"type": "string"}, "b": {"type": "string"}}
    assert admits("qwen_xml", "<parameter=a>x <parameter=c> y</parameter>", **schemas)
    assert not admits("qwen_xml", "<parameter=a>x <parameter=b> y</parameter>", **schemas)


@pytest.mark.parametrize(
    ("style", "way"),
    [
        ("qwen_xml", "<parameter={}>x</parameter>"),
        ("kimi_k3_xml", K3.replace('"a"', '"{}"').replace("{}<|close", "x<|close")),
        ("cohere_xml", '<cofl:value name="{}" type="raw">x</cofl:value>'),
        ("gemma", "{{{}:1}}"),
        ("pythonic", "{}=1"),
    ],
)
def test_names_that_a_schema_does_not_declare_have_up_to_1024_characters(style: str, way: str) -> None:
    assert admits(style, way.format("n" * 1024))
    assert not admits(style, way.format("n" * 1025))


def test_longer_names_are_not_declared() -> None:
    with pytest.raises(UnsupportedKeywordError, match="name has more than 1024 characters"):
        admits("qwen_xml", "", **{"n" * 1025: {}})


# --- Tools ---


def tools_of(*schemas: Any) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": f"f{number}", "parameters": schema}}
        for number, schema in enumerate(schemas)
    ]


WITHOUT_ARGUMENTS = {
    "qwen_3_coder": "<tool_call>\n<function=f0>\n</function>\n</tool_call>",
    "qwen_3_5": "<tool_call>\n<function=f0>\n</function>\n</tool_call>",
    "nemotron_3": "<tool_call>\n<function=f0>\n</function>\n</tool_call>",
    "seed_oss": "<seed:tool_call>\n<function=f0>\n</function>\n</seed:tool_call>",
    "glm_4_5": "<tool_call>f0\n</tool_call>",
    "glm_4_7": "<tool_call>f0</tool_call>",
    "mimo": "<tool_call><function=f0></function></tool_call>",
}


@pytest.mark.parametrize("family", WITHOUT_ARGUMENTS)
@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "f0"}}])
def test_a_call_without_arguments_is_admitted_as_templates_write_it(family: str, choice: Any) -> None:
    for schema in ({"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object"}):
        for more in ({}, {"additionalProperties": False}):
            tag = tool_calls(family, tools_of({**schema, **more}), choice)
            assert Grammar.from_structural_tag(tag).check(WITHOUT_ARGUMENTS[family]).valid


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("family", TOOL_FAMILIES)
@pytest.mark.parametrize(
    "schema",
    [
        {
            "type": "object",
            "properties": {"a": {"type": "object", "additionalProperties": {"type": "integer"}}},
        },
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "patternProperties": {"^a": {"type": "integer"}}},
    ],
)
def test_members_that_are_not_named_are_enforced_in_every_family(family: str, schema: Any) -> None:
    grammar = Grammar.from_structural_tag(tool_calls(family, tools_of(schema), "required"))
    assert not grammar.unenforced


@pytest.mark.parametrize("family", ["gemma_4", "minimax_m3", "cohere", "lfm_2"])
def test_different_items_are_not_enforced_where_they_are_not_json(family: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {}, "uniqueItems": True}}}
    told = (
        "tools: the parameters of 'f0': uniqueItems is not supported here: the items are not written as JSON"
    )
    with pytest.warns(UserWarning, match=told):
        grammar = Grammar.from_structural_tag(tool_calls(family, tools_of(schema), "required"))
    assert grammar.unenforced == (told,)


def test_different_items_are_enforced_beside_constants_of_python() -> None:
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    assert admits("qwen_xml", STRINGS["qwen_xml"].format('["x", "y"]'), a=schema)
    assert not admits("qwen_xml", STRINGS["qwen_xml"].format('["x", "x"]'), a=schema)


BAD = {"type": "object", "properties": {"a": {"type": "float"}}}


@pytest.mark.parametrize("family", TOOL_FAMILIES)
def test_errors_name_the_tool_and_the_place_in_its_schema(family: str) -> None:
    words = r"^tools: the parameters of 'f1': type 'float' .*\(#/properties/a/type\)$"
    with pytest.raises(GrammarError, match=words):
        Grammar.from_structural_tag(tool_calls(family, tools_of({"type": "object"}, BAD), "auto"))


def test_errors_name_the_member_that_has_no_value() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]}
    with pytest.raises(GrammarError, match=r"'f0': no value is valid .*\(#/properties/a/enum\)"):
        Grammar.from_structural_tag(tool_calls("glm_4_7", tools_of(schema), "auto"))


def test_one_bad_tool_may_take_any_object_and_leaves_the_others_as_they_are() -> None:
    tag = tool_calls("qwen_3", tools_of({"type": "object", "properties": {"n": {"type": "integer"}}}, BAD))
    with pytest.warns(UserWarning, match="the parameters of 'f1' may be any object: type 'float'"):
        grammar = Grammar.from_structural_tag(tag, unsupported="warn")
    assert len(grammar.unenforced) == 1
    call = '<tool_call>\n{{"name": "{}", "arguments": {}}}\n</tool_call>'
    assert grammar.check(call.format("f1", '{"b": [1]}')).valid
    assert grammar.check(call.format("f0", '{"n": 1}')).valid
    assert not grammar.check(call.format("f0", '{"n": "x"}')).valid
