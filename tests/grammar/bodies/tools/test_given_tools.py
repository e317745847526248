"""Tools as people have them: functions of Python, classes, Anthropic's tools, OpenAI's custom tools."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.grammar import Grammar, GrammarError, tool_calls
from engine_sampler.messages import ChatFormat, MessageParser


def weather(city: str, days: int = 1) -> str:
    """Tell the weather."""
    return f"{city}, {days}"


@dataclasses.dataclass
class Search:
    query: str


ANTHROPICS = {
    "name": "weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
LARK = 'start: "SELECT " /[a-z]+/'
LARK_FORMAT = {"type": "grammar", "grammar": {"syntax": "lark", "definition": LARK}}
REGEX_FORMAT = {"type": "grammar", "syntax": "regex", "definition": r"\d+"}
SQL = {"type": "custom", "custom": {"name": "sql", "format": LARK_FORMAT}}
NUMBER = {"type": "custom", "name": "dial", "format": REGEX_FORMAT}
FIND = {"type": "function", "function": {"name": "find", "parameters": Search}}
FREE = {"type": "custom", "name": "note"}


def call(name: str, arguments: dict[str, Any]) -> str:
    text = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{text}\n</tool_call>"


@pytest.mark.parametrize(
    ("tools", "text", "valid"),
    [
        ([weather, Search], call("weather", {"city": "Rome"}), True),
        ([weather, Search], call("weather", {"town": "Rome"}), False),
        ([weather, Search], call("Search", {"query": "Rome"}), True),
        (
            [FIND],
            call("find", {"query": "a"}),
            True,
        ),
        ([FIND], call("find", {}), False),
        ([ANTHROPICS], call("weather", {"city": "Rome"}), True),
        ([ANTHROPICS], call("weather", {}), False),
        ([NUMBER], call("dial", {"input": "112"}), True),
        ([NUMBER], call("dial", {"input": "one"}), False),
        ([FREE], call("note", {"input": "anything"}), True),
    ],
    ids="function wrong class type missing anthropic its-schema regex no-match text".split(),
)
def test_calls_follow_tools_of_all_forms(tools: list[Any], text: str, valid: bool) -> None:
    assert Grammar.from_structural_tag(tool_calls("hermes", tools, "required")).check(text).valid is valid
    assert ChatFormat("hermes", tools).parser() is not None


A = {"properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        A,
        {**A, "type": ["object", "null"]},
        {"anyOf": [{"type": "object", **A}, {"type": "string"}]},
        {"type": ["object", "array"], "allOf": [A]},
        {"enum": [{"a": 1}, 5, [1], "x", None]},
    ],
    ids=str,
)
@pytest.mark.parametrize("family", ["hermes", "harmony"])
def test_arguments_are_an_object_whatever_their_schema_allows_besides(family: str, schema: Any) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    grammar = Grammar.from_structural_tag(tool_calls(family, tools, "required"))
    form = '<tool_call>\n{"name": "f", "arguments": %s}\n</tool_call>'
    if family == "harmony":
        form = "<|channel|>commentary to=functions.f json<|message|>%s<|call|>"
    for arguments in ('{"a": 1}', "5", "[1]", '"x"', "null"):
        parser = MessageParser(family, tools)
        parser.feed(form % arguments)
        parser.finish()
        is_object = arguments[0] == "{"
        assert grammar.check(form % arguments).valid is is_object
        assert is_object <= ([part.text for part in parser.parts] == [arguments])


def test_a_schema_without_objects_is_an_error_that_names_the_tool() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}]
    with pytest.raises(GrammarError, match="tools: the parameters of 'f': no value is valid"):
        Grammar.from_structural_tag(tool_calls("hermes", tools, "required"))


@pytest.mark.parametrize(
    ("choice", "plain"),
    [
        ({"type": "any"}, "required"),
        ({"type": "auto"}, "auto"),
        ({"type": "none"}, "none"),
        ("any", "required"),
    ],
    ids=["any", "auto", "none", "Mistral"],
)
def test_choices_of_anthropic_and_mistral_are_openais(choice: Any, plain: str) -> None:
    asked = SamplingParams.from_dict({"tools": [ANTHROPICS], "tool_choice": choice}, tool_family="hermes")
    same = SamplingParams.from_dict({"tools": [ANTHROPICS], "tool_choice": plain}, tool_family="hermes")
    assert asked == same
    assert tool_calls("hermes", [ANTHROPICS], choice) == tool_calls("hermes", [ANTHROPICS], plain)


def test_anthropics_named_choice_and_its_switch_for_parallel_calls_are_read() -> None:
    named = {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
    body = {"tools": [ANTHROPICS], "tool_choice": named}
    params = SamplingParams.from_dict(body)
    assert Grammar.from_json_schema(params.json_schema).check('{"city": "Rome"}').valid
    forced = {"tools": [ANTHROPICS], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}
    assert json.loads(SamplingParams.from_dict(forced).json_schema)["maxItems"] == 1


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [(SQL, {"grammar": LARK}), (NUMBER, {"regex": r"\d+"}), (FREE, {})],
    ids=["lark", "regex", "text"],
)
def test_a_forced_custom_tool_without_a_family_is_its_text(tool: Any, parameters: dict[str, Any]) -> None:
    params = SamplingParams.from_dict({"tools": [tool], "tool_choice": "required"})
    assert {name: params[name] for name in ("grammar", "regex", "json_schema") if params[name]} == parameters


@pytest.mark.parametrize(("text", "valid"), [("SELECT abc", True), ("DROP abc", False)])
def test_harmony_calls_a_custom_tool_with_its_text(text: str, valid: bool) -> None:
    choice = {"type": "custom", "custom": {"name": "sql"}}
    grammar = Grammar.from_structural_tag(tool_calls("harmony", [SQL, weather], choice))
    answer = f"<|channel|>commentary to=functions.sql<|message|>{text}"
    assert grammar.check(answer).valid is valid


def test_a_lark_grammar_is_refused_within_json() -> None:
    with pytest.raises(ParameterError, match="the Lark grammar of the custom tool 'sql' is not allowed"):
        tool_calls("hermes", [SQL], "required")


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({"type": "xml"}, "format="),
        ({"type": "grammar", "syntax": "peg", "definition": "a"}, "lark or regex"),
        (3, "custom.format=3"),
    ],
    ids=["xml", "peg", "number"],
)
def test_formats_of_custom_tools_that_are_unknown_are_refused(form: Any, error: str) -> None:
    with pytest.raises(ParameterError, match=error):
        tool_calls("hermes", [{"type": "custom", "name": "sql", "format": form}], "required")


@pytest.mark.parametrize("tool", [lambda x, /: x, len, object()], ids=["position", "builtin", "object"])
def test_what_is_no_tool_is_named(tool: Any) -> None:
    with pytest.raises(ParameterError, match=r"tools=.*is not allowed"):
        SamplingParams.from_dict({"tools": [tool], "tool_choice": "required"})


def test_answers_with_calls_of_functions_are_read() -> None:
    parser = MessageParser("hermes", [weather])
    parser.feed(call("weather", {"city": "Rome"}))
    parser.finish()
    assert [(one.name, one.value) for one in parser.parts] == [("weather", {"city": "Rome"})]
