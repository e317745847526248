"""Answers that the tests of vLLM, SGLang, llama.cpp and Ollama contain, with the message that these read."""

from __future__ import annotations

import json
import re
from functools import cache
from random import Random
from typing import Any, NamedTuple

import pytest

from engine_sampler.grammar import TOOL_FAMILIES
from engine_sampler.messages import MessageParser, chat_deltas, chat_message

from ...conftest import shared_data
from ..vocabularies import random_cuts

Message = tuple[str, str | None, list[tuple[str, Any]]]
"""Content and thoughts without white space at their ends, None for thoughts that are not said, and calls."""

SET_ASIDE = (
    "special tokens given as text",  # ids of special tokens that are no markers have no text
    "prefill joined to the answer",  # begins in the middle of a message
)

DECIDED_BY_WHY = {
    "text after calls dropped or glued": "text around calls is content: none is lost",
    "DSML wrapper / coercion of string=true": "an argument is what its marks say, and keeps its name",
    "no schema: all values are strings (vLLM Gemma)": "types follow the text where no schema says them",
    "reasoning moved to content": "thoughts are not promoted to content",
    "GLM escaped JSON": "a string is what is written: nothing is unescaped",
    "Ollama: cleans DeepSeek tool_output": "marks of results of tools are none of an answer's",
}
"""Where peers are alone: by what the record says of the case."""

DECIDED = {
    # Content
    r"noise_between|content_after_tool_section|trailing_text_after_json|"
    r"llama3_json.*(simple|surrounding_text)|function_call_parser.py::test_detect_and_parse_multiple_calls|echoed_tool_call|"
    r"nemotron_v3.py::test_no_tool_calls|schema::": "text beside calls is content: none is lost",
    r"empty_tool_call_block": "an empty block of calls is no content (vLLM does both)",
    r"multiple_think_close|nested_think|duplicate_think": "a second end of thoughts is dropped (vLLM)",
    r"thinking_disabled_with_close_tag|force_nonempty_content": "thoughts are disabled by an option",
    r"first_chunk_prepends_think": "content begins without thoughts unless `reasoning` says so",
    r"partial_think_tag_at_end|opening_bracket_only": "what is not a whole mark is text",
    r"answer_tail_as_normal|finish_flushes_truncated": "the peer's test looks at a part of the answer",
    r"split_channel_open_tag": "marks of thoughts are content where thoughts are disabled",
    # Thoughts
    r"deepseek_v4.py::.*implicit_end|tool_call_no_think_end|tool_call_implicit_end_no_think|"
    r"streaming_tool_call_implicit_end|content_after_tool_call|think_end_and_tool_call|"
    r"partial_marker_buffering|forced_reasoning_mode|no_stream_reasoning|bare_thought|Qwen3.5-4B#15|"
    r"missing_think_separator": "an answer begins within thoughts if `reasoning` and the family say so, and "
    "without tools the markup of calls is content",
    # Calls that are not whole
    r"emits_arguments_before|truncated_no_closing|malformed_input": "a call that is cut stays open JSON, and "
    "is whole where only marks are missing",
    r"invalid_json|malformed_json|unparsable_tool_id|regex_timeout|malformed_function_end|"
    r"v11_without_args|non_string_arg": "a call whose arguments are not JSON is closed or content, and "
    "later calls are read; no call has arguments that are no JSON",
    r"malformed_name|empty_name|tool_call_matrix|parallel_malformed": "a call without a name is none",
    r"llama4.*multiple_tool_calls|python_start_and_end_token|parse_streaming_multiple_tool|"
    r"streaming_one_chunk": "the peer's stream is cut or glued",
    r"same_chunk_before_real": "the peer's test has no parser of calls",
    # Names and sections
    r"invalid_tool": "a call of an unknown function is a call (OpenAI, vLLM), as `unknown_tools` says",
    r"function_calls_block": "a call is read without the beginning of its section (SGLang, llama.cpp)",
    r"attr_unescaping": "names of tools are those that OpenAI allows, and more; none has an &",
}
"""Other differences, by the name of the test that the case is from."""


class Case(NamedTuple):
    """A recorded answer; `tools` None with the tool_choice "none": the peer reads no calls."""

    source: str
    family: str
    text: str
    tools: Any
    options: dict[str, Any]
    want: Message
    why: str | None
    verdict: str

    @property
    def is_decided(self) -> bool:
        """Whether it is known that and why it is read otherwise."""
        if self.why in DECIDED_BY_WHY or self.verdict == "quirk":
            return True
        return any(re.search(one, self.source) for one in DECIDED)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return ("no JSON", text)


@cache
def cases() -> dict[str, list[Case]]:
    """The cases of each family."""
    by_family: dict[str, list[Case]] = {}
    for line in shared_data("chat_cases.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record.get("why") not in SET_ASIDE:
            by_family.setdefault(record["family"], []).append(case_of(record))
    return by_family


def case_of(record: dict[str, Any]) -> Case:
    source, want, options, tools = (record[key] for key in ("source", "want", "options", "tools"))
    options = {key: value for key, value in options.items() if key not in ("resume", "calls_end_thoughts")}
    if "tool_choice_none" in source:
        options["tool_choice"] = "none"
    elif "skip_tool" in source:  # the peer's switch for no parser of calls
        tools, options["tool_choice"] = None, "none"
    thoughts = want["reasoning"].strip() if isinstance(want["reasoning"], str) else None
    calls = [(one["name"], _json(one["arguments"])) for one in want["calls"] or ()]
    message = (want["content"] or "").strip(), thoughts, calls
    why, verdict = record.get("why"), record["verdict"]
    return Case(source, record["family"], record["text"], tools, options, message, why, verdict)


def read(case: Case, pieces: list[str]) -> Message:
    """The message that is read of pieces, which is the sum of its deltas."""
    parser = MessageParser(case.family, case.tools, call_id=lambda *_: "id", **case.options)
    deltas = [one for piece in pieces for one in chat_deltas(parser.feed(piece))]
    deltas += chat_deltas(parser.finish())
    message = chat_message(parser)
    summed = {key: "".join(one.get(key, "") for one in deltas) for key in ("content", "reasoning_content")}
    assert {key: message.get(key) or "" for key in summed} == summed
    functions = [call["function"] for call in message.get("tool_calls", ())]
    arguments = ["" for _ in functions]
    for call in (call for delta in deltas for call in delta.get("tool_calls", ())):
        arguments[call["index"]] += call["function"]["arguments"]
    assert [function["arguments"] for function in functions] == arguments
    said = [(function["name"], _json(function["arguments"])) for function in functions]
    return summed["content"].strip(), summed["reasoning_content"].strip(), said


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("family", TOOL_FAMILIES)
def test_recorded_answers_are_read_as_peers_read_them_unless_it_is_decided_otherwise(family: str) -> None:
    for number, case in enumerate(cases().get(family, ())):
        try:
            message = read(case, [case.text])
        except ValueError:  # a tool whose name is not allowed
            assert case.is_decided, case
            continue
        assert read(case, list(case.text)) == message, case
        assert read(case, random_cuts(case.text, Random(number))) == message, case
        content, thoughts, calls = case.want
        is_equal = message == (content, message[1] if thoughts is None else thoughts, calls)
        assert is_equal or case.is_decided, (case, message)


def test_every_decision_is_about_an_answer() -> None:
    sources = [case.source for some in cases().values() for case in some]
    whys = {case.why for some in cases().values() for case in some}
    assert [one for one in DECIDED if not any(re.search(one, source) for source in sources)] == []
    assert set(DECIDED_BY_WHY) - whys == set()
