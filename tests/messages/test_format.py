"""What the body of a chat request says about its answer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.grammar import Grammar, tool_calls
from engine_sampler.messages import ChatFormat, MessageParser, chat_message

from ..grammar.bodies.tools.transcripts import TOOLS, TRANSCRIPTS
from .vocabularies import EOS, SPECIAL

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


@pytest.mark.parametrize("family", TRANSCRIPTS)
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_what_is_constrained_is_what_is_read(family: str, choice: str) -> None:
    transcript = TRANSCRIPTS[family]
    body = {"tools": TOOLS, "tool_choice": choice, "messages": []}
    form = ChatFormat.from_dict(body, family, reasoning="enabled" if transcript.thoughts else "disabled")
    text = transcript.thoughts + transcript.calls()
    assert Grammar.from_structural_tag(form.params(body).structural_tag).check(text).valid
    parser = form.parser()
    parser.feed(text)
    parser.finish()
    assert parser.deviation is None
    message = chat_message(parser)
    assert [one["function"]["name"] for one in message["tool_calls"]] == ["get_weather"]
    assert message.get("reasoning_content") == ("I look it up." if transcript.thoughts else None)


def test_parameters_are_those_of_the_body_with_the_constraint() -> None:
    body = {"model": "m", "temperature": 0.5, "tools": TOOLS, "tool_choice": "required", "stop": ["x"]}
    form = ChatFormat.from_dict(body, "qwen_3", reasoning="enabled")
    params = form.params(body)
    assert (params.temperature, params.order, list(params.stop)) == (0.5, "vllm", ["x"])
    assert json.loads(params.structural_tag) == tool_calls("qwen_3", TOOLS, "required", reasoning="enabled")
    assert ChatFormat.from_dict({}, "qwen_3").params({}) == SamplingParams.from_dict({})


@pytest.mark.parametrize(
    ("off", "on"),
    [
        ({"chat_template_kwargs": {"enable_thinking": False}}, {"chat_template_kwargs": {"thinking": True}}),
        ({"enable_thinking": False}, {"enable_thinking": True}),
        ({"think": False}, {"think": "high"}),
        ({"thinking": {"type": "disabled"}}, {"thinking": {"type": "enabled", "budget_tokens": 9}}),
        ({"reasoning": {"enabled": False}}, {"reasoning": {"effort": "low"}}),
        ({"reasoning_effort": "none"}, {"reasoning_effort": "low"}),
    ],
)
def test_a_body_may_switch_thoughts_off(off: dict[str, Any], on: dict[str, Any]) -> None:
    body = {**off, "tools": TOOLS}
    form = ChatFormat.from_dict(body, "qwen_3", reasoning="enabled")
    assert form.reasoning == "disabled"
    assert form.params(body) == ChatFormat("qwen_3", TOOLS, reasoning="disabled").params({})
    assert ChatFormat.from_dict(on, "qwen_3", reasoning="enabled").reasoning == "enabled"


@pytest.mark.parametrize("key", ["thinking_token_budget", "reasoning_budget"])
def test_a_budget_ends_the_thoughts_before_a_call(key: str) -> None:
    vocabulary = SPECIAL
    body = {"tools": TOOLS, "tool_choice": "required", key: 3, "seed": 5, "max_tokens": 400}
    form = ChatFormat.from_dict(body, "qwen_3", reasoning="enabled", starts_inside=True)
    scheduler = Scheduler(len(vocabulary), vocabulary, eos_token_ids=[EOS])
    parser = form.parser(vocabulary)
    request_id = scheduler.add(form.params(body, vocabulary), [1], parser=parser)
    random = np.random.default_rng(0)
    while scheduler.request_ids:
        scheduler.step(random.normal(0, 1, (1, len(vocabulary))).astype(np.float32))
    record = scheduler.record(request_id)
    assert record.phase_tokens is not None
    assert 3 <= record.phase_tokens["reasoning"] <= 12  # the budget, a whole character, and the end
    assert parser.deviation is None
    assert record.finish_reason != "error"


def test_a_budget_means_nothing_where_there_are_no_thoughts() -> None:
    body = {"thinking_token_budget": 3}
    assert ChatFormat.from_dict(body, "qwen_3", reasoning="disabled").params(
        body
    ) == SamplingParams.from_dict({})


def test_a_format_of_the_response_comes_after_the_thoughts() -> None:
    for response_format, content, wrong in (
        (FORMAT, '{"a": 1}', '{"a": "1"}'),
        ({"type": "json_object"}, '{"b": []}', "[]"),
        ({"type": "regex", "regex": "[0-9]+"}, "12", "x"),
    ):
        body = {"response_format": response_format}
        form = ChatFormat.from_dict(body, "qwen_3", reasoning="enabled")
        grammar = Grammar.from_structural_tag(form.params(body).structural_tag)
        assert grammar.check(f"Hm.</think>\n\n{content}").valid
        assert not grammar.check(f"Hm.</think>\n\n{wrong}").valid
        assert not grammar.check(content).valid
        parser = form.parser()
        parser.feed(f"Hm.</think>\n\n{content}")
        assert chat_message(parser)["content"] == content
    assert ChatFormat.from_dict({"response_format": FORMAT}, "hermes").constraint == {"json_schema": SCHEMA}


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (
            "harmony",
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>%s",
        ),
        (
            "kimi_k3",
            "Hm.<|close|>think<|sep|><|open|>response<|sep|>%s<|close|>response<|sep|><|close|>message<|sep|>",
        ),
        ("command_r7b", "Hm.<|END_THINKING|><|START_RESPONSE|>%s<|END_RESPONSE|>"),
    ],
)
def test_a_format_of_the_response_stands_within_the_marks_of_content(family: str, text: str) -> None:
    form = ChatFormat(family, response_format=FORMAT, reasoning="enabled")
    grammar = Grammar.from_structural_tag(form.constraint["structural_tag"])
    assert grammar.check(text % '{"a": 1}').valid
    assert not grammar.check(text % '{"a": "1"}').valid
    parser = form.parser()
    parser.feed(text % '{"a": 1}')
    parser.finish()
    assert (parser.deviation, chat_message(parser)["content"]) == (None, '{"a": 1}')


def test_text_before_a_required_call_may_be_forbidden() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    body = {"tools": [{"name": "f"}], "tool_choice": "required"}
    for preamble in (True, False):
        form = ChatFormat.from_dict(body, "hermes", preamble=preamble)
        grammar = Grammar.from_structural_tag(form.constraint["structural_tag"])
        assert grammar.check(call).valid
        assert grammar.check(f"I call.{call}").valid is preamble


def test_a_choice_of_none_constrains_the_text() -> None:
    form = ChatFormat("qwen_3", TOOLS, tool_choice="none", reasoning="disabled")
    grammar = Grammar.from_structural_tag(form.constraint["structural_tag"])
    assert grammar.check("Hello.").valid
    assert not grammar.check('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>').valid
    assert "json_schema" in ChatFormat("hermes", TOOLS, tool_choice="none", response_format=FORMAT).constraint


REMOTE = {"$ref": "urn:example:whole"}
WHOLE = {"urn:example:whole": {"type": "integer", "const": 5}}
ARGUMENTS = {"type": "object", "properties": {"a": REMOTE}, "required": ["a"]}
REMOTE_TOOL = {"name": "get", "parameters": ARGUMENTS}


@pytest.mark.parametrize("reasoning", ["disabled", "auto"])
@pytest.mark.parametrize("asks_for", ["tools", "response_format"])
def test_schemas_may_refer_to_documents_that_are_handed_in(reasoning: Any, asks_for: str) -> None:
    body: dict[str, Any] = {"response_format": {"type": "json_schema", "json_schema": {"schema": REMOTE}}}
    right, wrong = "5", "6"
    if asks_for == "tools":
        body = {"tools": [{"type": "function", "function": REMOTE_TOOL}], "tool_choice": "required"}
        right, wrong = (
            f'<tool_call>\n{{"name": "get", "arguments": {{"a": {one}}}}}\n</tool_call>' for one in "56"
        )
    form = ChatFormat.from_dict(body, "qwen_3", reasoning=reasoning, draft="7", resources=WHOLE)
    params = form.params(body)
    assert (params.draft, json.loads(params.resources)) == ("7", WHOLE)
    make = Grammar.from_json_schema if params.structural_tag is None else Grammar.from_structural_tag
    given: Any = params.json_schema if params.structural_tag is None else params.structural_tag
    grammar = make(given, draft="7", resources=WHOLE)
    thoughts = "" if params.structural_tag is None or reasoning == "disabled" else "<think>Hm.</think>\n\n"
    assert grammar.check(thoughts + right).valid
    assert not grammar.check(thoughts + wrong).valid


def test_documents_of_a_body_take_the_place_of_those_of_the_format() -> None:
    form = ChatFormat("qwen_3", resources=WHOLE, draft="7")
    params = form.params({"json_schema": REMOTE, "resources": {"urn:example:whole": {}}})
    assert (params.draft, json.loads(params.resources)) == ("7", {"urn:example:whole": {}})
    assert form.params({"regex": "x"}).resources is None


@pytest.mark.parametrize(
    ("given", "words"),
    [({"draft": "5"}, "draft='5' is not allowed: one of"), ({"resources": 5}, "resources=5 is not allowed")],
    ids=["draft", "resources"],
)
def test_documents_and_drafts_are_checked_at_once(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        ChatFormat("qwen_3", **given)


def test_marks_that_end_an_answer_stop_it() -> None:
    form = ChatFormat("harmony", TOOLS)
    assert len(form.stop_token_ids(SPECIAL)) == 1  # <|call|>: the vocabulary has no <|return|>
    assert EOS not in form.stop_token_ids(SPECIAL)
    assert list(form.params({}, SPECIAL).stop_token_ids) == form.stop_token_ids(SPECIAL)
    assert ChatFormat("qwen_3", TOOLS).stop_token_ids(SPECIAL) == []


@pytest.mark.parametrize("thinks", [False, True], ids=["content", "thoughts"])
def test_a_stop_string_ends_what_is_read(thinks: bool) -> None:
    form = ChatFormat("qwen_3", reasoning="enabled" if thinks else "auto")
    parser = form.parser(stop=["END", "\n\n"], trim="nothing")
    kind = "thought" if thinks else "content"
    assert [(one.kind, one.text) for one in parser.feed("One. E") if one.kind == kind] == [(kind, "One. ")]
    assert [(one.kind, one.text) for one in parser.feed("N.\n")] == [(kind, "EN.")]
    assert parser.feed("\nTwo.") == []
    assert parser.finish() == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"tools": "ls"}, "tools='ls' is not allowed"),
        ({"tool_choice": "required"}, "tool_choice requires a call"),
        ({"response_format": {"type": "xml"}}, "response_format=.* is not allowed"),
        ({"tools": TOOLS, "parallel_tool_calls": 5}, "parallel_tool_calls=5 is not allowed"),
        ({"tools": TOOLS, "regex": "x"}, "regex is not allowed beside tools"),
        ({"temperature": "hot"}, "temperature='hot'"),
    ],
)
def test_what_is_not_allowed_is_named(body: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        ChatFormat.from_dict(body, "qwen_3").params(body)
    with pytest.raises(ParameterError, match="family='x' is not allowed"):
        ChatFormat("x")
    for make in (ChatFormat, MessageParser):
        with pytest.raises(ParameterError, match="reasoning='often' is not allowed: one of 'disabled', "):
            make("qwen_3", reasoning="often")  # type: ignore[operator]
    for read in (lambda: ChatFormat.from_dict("x", "qwen_3"), lambda: ChatFormat("qwen_3").params("x")):  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="body='x' is not allowed: an object"):
            read()
    with pytest.raises(ParameterError, match=r"stop=\[5\] is not allowed: a text or a list of texts"):
        ChatFormat("qwen_3").parser(stop=[5])


@pytest.mark.parametrize(
    ("asked", "content"),
    [
        ({"response_format": FORMAT}, '{"a": 1}'),
        ({"response_format": {"type": "json_object"}}, '{"b": []}'),
        ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, '{"a": 1}'),
        ({"structured_outputs": {"regex": "[0-9]+"}}, "12"),
    ],
    ids=["schema", "object", "text of a schema", "pattern"],
)
def test_a_body_whose_family_is_known_is_constrained_behind_the_thoughts(asked: Any, content: str) -> None:
    params = SamplingParams.from_dict(asked, tool_family="qwen_3", reasoning="enabled")
    grammar = Grammar.from_structural_tag(params.structural_tag)
    assert grammar.check(f"So.</think>\n\n{content}").valid
    assert not grammar.check(content).valid
    assert not grammar.check("So.</think>\n\nno").valid
    plain = SamplingParams.from_dict(asked, tool_family="qwen_3")
    assert plain.structural_tag is None


CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
WRITTEN = f"<think>\nHm.\n</think>\n\nHi\n{CALL}"


@pytest.mark.parametrize(
    ("asked", "content", "thoughts"),
    [
        ({}, "Hi\n", "Hm."),
        ({"separate_reasoning": False}, "<think>\nHm.\n</think>\n\nHi\n", None),
        ({"reasoning_format": "none"}, "<think>\nHm.\n</think>\n\nHi\n", None),
        ({"reasoning_format": "deepseek", "cache_prompt": True}, "Hi\n", "Hm."),
        ({"include_reasoning": False}, "Hi\n", None),
        ({"parse_tool_calls": False}, f"Hi\n{CALL}", "Hm."),
    ],
    ids=str,
)
def test_a_body_says_how_its_answer_is_sent(
    asked: dict[str, Any], content: str, thoughts: str | None
) -> None:
    body = {"tools": TOOLS, **asked}
    form = ChatFormat.from_dict(body, "qwen_3")
    assert form.params(body) == ChatFormat.from_dict({"tools": TOOLS}, "qwen_3").params({})
    assert SamplingParams.from_dict(body) == SamplingParams.from_dict({"tools": TOOLS})
    parser = form.parser()
    events = parser.feed(WRITTEN) + parser.finish()
    message = form.message(parser)
    assert message["content"] == content
    assert message.get("reasoning") == message.get("reasoning_content") == thoughts
    assert "".join(delta.get("content", "") for delta in form.deltas(events)) == content
    assert ("tool_calls" in message) is (asked.get("parse_tool_calls") is not False)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"separate_reasoning": "no"}, "separate_reasoning='no' is not allowed: true or false"),
        ({"reasoning_format": "some"}, "reasoning_format='some' is not allowed: one of 'none', 'auto'"),
        (
            {"continue_final_message": True, "messages": [{"role": "assistant", "content": 5}]},
            "messages=5 is",
        ),
    ],
)
def test_what_a_body_may_not_say_of_its_answer_is_named(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        ChatFormat.from_dict(asked, "qwen_3")
    with pytest.raises(ParameterError, match="reasoning_keys='reasoning' is not allowed: a list of keys"):
        ChatFormat("qwen_3", reasoning_keys="reasoning")


BODIES: list[dict[str, Any]] = [
    {"structured_outputs": {"regex": "a+"}, "tools": TOOLS},
    {"structured_outputs": {"json": SCHEMA}, "tools": TOOLS, "tool_choice": "auto"},
    {"guided_json": SCHEMA, "tools": TOOLS},
    {"response_format": FORMAT, "tools": TOOLS},
    {"response_format": FORMAT, "structured_outputs": {"disable_any_whitespace": True}},
    {"tools": TOOLS, "tool_choice": "any"},
    {"tools": TOOLS, "tool_choice": "required", "regex": ""},
    {"functions": [TOOLS[0]["function"]], "function_call": {"name": "get_weather"}},
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: ",".join(body))
@pytest.mark.parametrize("reasoning", ["disabled", "enabled", "auto"])
def test_a_format_constrains_as_parameters_alone_do(body: dict[str, Any], reasoning: Any) -> None:
    form = ChatFormat.from_dict(body, "qwen_3", reasoning=reasoning)
    alone = SamplingParams.from_dict(body, tool_family="qwen_3", reasoning=reasoning)
    assert form.params(body) == alone
