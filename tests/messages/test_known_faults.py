"""Faults that other parsers are reported to have, some by the number of a thread: none of them here."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from engine_sampler.contract import allocate_bitmask, unpack_bitmask
from engine_sampler.grammar import Grammar, tool_calls
from engine_sampler.messages import MessageParser, chat_deltas, chat_message

from .families import WrittenCall, tools_of
from .vocabularies import ADDED, MARKERS

TOOLS = tools_of([WrittenCall("f", {"path": "", "edit": {"a": [1]}, "n": 1, "none": None})])
HERMES = '<tool_call>\n{"name": "f", "arguments": %s}\n</tool_call>'


def message(text: str, family: str = "qwen_3", **options: Any) -> dict[str, Any]:
    """What is read of a text, character by character."""
    parser = MessageParser(family, TOOLS, **options)
    for character in text:
        parser.feed(character)
    parser.finish()
    return chat_message(parser)


def arguments(text: str, family: str = "qwen_3", **options: Any) -> list[Any]:
    calls = message(text, family, **options)["tool_calls"]
    return [json.loads(one["function"]["arguments"]) for one in calls]


def test_a_marker_that_is_spelled_is_neither_admitted_nor_read() -> None:
    """vLLM #58315: the grammar admits a marker in sub-tokens, in which the parser finds no call."""
    matcher = (
        Grammar.from_structural_tag(tool_calls("qwen_3", TOOLS, "required", preamble=False))
        .compile(ADDED)
        .matcher()
    )
    bitmask = allocate_bitmask(1, len(ADDED))
    matcher.fill_bitmask(bitmask)
    begin = len(ADDED) - len(MARKERS) + MARKERS.index("<tool_call>")
    assert np.flatnonzero(unpack_bitmask(bitmask[0], len(ADDED))).tolist() == [begin]


@pytest.mark.parametrize(
    "value", ["}", "</tool_call>", '{"a": "</tool_call>"}', "<tool_call>", '"', "\\", "]}"]
)
def test_what_looks_like_an_end_within_a_string_is_none(value: str) -> None:
    """vLLM #49248, #51364, #47190: parsers by regular expressions lose arguments, or give {}."""
    assert arguments(HERMES % json.dumps({"path": value})) == [{"path": value}]


@pytest.mark.parametrize("value", ["", "x", "a\n\nb", "<b>", "</parameter", '{"a": 1}', "[", "null", "True"])
def test_a_string_in_elements_stays_what_it_is(value: str) -> None:
    """Strings that look like JSON, markup or nothing at all."""
    call = "<tool_call>\n<function=f>\n<parameter=path>\n%s\n</parameter>\n</function>\n</tool_call>"
    assert arguments(call % value, "qwen_3_5") == [{"path": value}]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert arguments(HERMES % "{}") == [{}]
    assert arguments("<tool_call>\n<function=f>\n</function>\n</tool_call>", "qwen_3_5") == [{}]
    assert arguments("<tool_call>f\n</tool_call>", "glm_4_5") == [{}]


def test_an_end_of_thoughts_without_a_beginning_is_no_error() -> None:
    """vLLM #46149: a stray </think> ends in an error of the server."""
    assert message("Hello.</think>Bye.")["content"] == "Hello.Bye."
    assert message("</think>Bye.", reasoning="enabled")["content"] == "Bye."
    assert message("</think>Bye.", reasoning="disabled")["content"] == "</think>Bye."


def test_a_call_may_end_thoughts() -> None:
    """Some models call a tool before they have ended their thoughts."""
    text = f"<think>I call it. {HERMES % '{}'}"
    read = message(text, calls_end_thoughts=True)
    assert read["reasoning_content"] == "I call it."
    assert [one["function"]["name"] for one in read["tool_calls"]] == ["f"]
    assert message(text) == {
        "role": "assistant",
        "content": None,
        **dict.fromkeys(("reasoning", "reasoning_content"), text.removeprefix("<think>")),
    }


def test_arguments_are_streamed_before_they_are_whole() -> None:
    """In forms that are not JSON, too."""
    parser = MessageParser("glm_4_7", TOOLS)
    parser.feed("<tool_call>f<arg_key>path</arg_key><arg_value>/a")
    assert chat_deltas(parser.feed("/b")) == [{"tool_calls": [{"index": 0, "function": {"arguments": "/b"}}]}]


def test_values_have_the_types_of_their_schema() -> None:
    """Neither do numbers and objects come as strings, nor strings as numbers."""
    call = (
        "<tool_call>f<arg_key>path</arg_key><arg_value>12</arg_value><arg_key>n</arg_key><arg_value>12"
        '</arg_value><arg_key>edit</arg_key><arg_value>{"a": [2]}</arg_value><arg_key>none</arg_key>'
        "<arg_value>null</arg_value></tool_call>"
    )
    assert arguments(call, "glm_4_7") == [{"path": "12", "n": 12, "edit": {"a": [2]}, "none": None}]


def test_a_number_that_python_cannot_represent_stays_a_number() -> None:
    digits = "1" * 5_000
    call = f"<tool_call>f<arg_key>n</arg_key><arg_value>{digits}</arg_value></tool_call>"
    (read,) = message(call, "glm_4_7")["tool_calls"]
    assert read["function"]["arguments"] == f'{{"n": {digits}}}'


def test_a_value_that_is_not_of_its_type_does_not_spoil_the_call() -> None:
    call = "<tool_call>f<arg_key>n</arg_key><arg_value>many</arg_value></tool_call>"
    assert arguments(call, "glm_4_7") == [{"n": "many"}]


def test_calls_that_follow_each_other_without_any_space_are_several() -> None:
    assert arguments(HERMES % '{"n": 1}' + HERMES % '{"n": 2}') == [{"n": 1}, {"n": 2}]


def test_text_after_calls_is_content() -> None:
    assert message(HERMES % "{}" + "\n\nDone.")["content"] == "\n\nDone."
