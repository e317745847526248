"""A parser may begin within a message: what a client has written of it, or an answer that goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, Scheduler
from engine_sampler.grammar import TOOL_FAMILIES
from engine_sampler.messages import ChatFormat, MessageParser, chat_deltas, chat_message

from ..batches import summed
from ..families import random_answer
from ..laws import FAMILIES, feed, parser_of, pieces_of
from ..vocabularies import EOS, SPECIAL, random_ids

DATA = Path(os.environ.get("ENGINE_SAMPLER_TEST_DATA", "/nowhere"))
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


def texts(message: dict[str, Any]) -> tuple[str, str]:
    return message.get("reasoning", ""), message["content"] or ""


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_prefix_and_the_rest_are_the_whole_message(family: str) -> None:
    for seed in range(9):
        random = Random(seed)
        answer = random_answer(family, random)
        tokenizer, pieces = pieces_of(answer, random, seed % 3)
        cut = random.randint(0, len(pieces))
        prefix: Any = "".join(pieces[:cut]) if tokenizer is None else pieces[:cut]
        whole = parser_of(family, answer, tokenizer=tokenizer)
        for piece in pieces:
            feed(whole, piece)
        whole.finish()
        for echo in (True, False):
            parser = parser_of(family, answer, tokenizer=tokenizer, prefix=prefix, echo=echo)
            events = [event for piece in pieces[cut:] for event in feed(parser, piece)] + parser.finish()
            assert summed(chat_deltas(events)) == chat_message(parser)
            assert not echo or chat_message(parser) == chat_message(whole)


def test_the_names_of_markers_in_a_prefix_are_these() -> None:
    parser = MessageParser("qwen_3", tokenizer=SPECIAL, prefix="<think>Hm.</think>a", echo=True)
    assert texts(chat_message(parser)) == ("Hm.", "a")


@pytest.mark.parametrize("echo", [False, True])
def test_what_the_prefix_says_is_given_only_if_it_is_asked_for(echo: bool) -> None:
    prefix = "<think>\nHm.\n</think>\n\nHello, "
    parser = MessageParser("qwen_3", prefix=prefix, echo=echo)
    assert parser.finish() == [] if not echo else len(parser.parts) == 2
    parser = MessageParser("qwen_3", prefix=prefix, echo=echo)
    parser.feed("world!")
    assert texts(chat_message(parser)) == (("Hm.", "Hello, world!") if echo else ("", "world!"))
    thinking = MessageParser("qwen_3", prefix="<think>\nI'm", echo=echo)
    assert thinking.is_thinking
    thinking.feed(" thinking\n</think>\n\nHi")
    assert texts(chat_message(thinking)) == (("I'm" if echo else "") + " thinking", "Hi")
    assert thinking.thinking_tokens == 1


def test_a_call_that_the_prefix_has_begun_is_given_whole() -> None:
    begun = MessageParser("qwen_3", prefix=f"Look. {CALL}\n{CALL[:-25]}", call_id=lambda *_: "1")
    events = begun.feed(CALL[-25:])
    expected = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]
    assert chat_message(begun)["tool_calls"] == expected
    assert summed(chat_deltas(events)) == chat_message(begun)
    named = MessageParser("qwen_3", prefix=CALL[:30])
    assert named.parts == []
    named.feed(CALL[30:])
    assert chat_message(named)["tool_calls"][0]["function"] == expected[0]["function"]


def test_a_prefix_is_no_part_of_what_is_taken_back() -> None:
    parser = MessageParser("qwen_3", prefix="<think>Hm")
    parser.feed(".</think>a")
    assert len(parser) == 1
    fork = parser.fork()
    parser.rollback(1)
    assert parser.is_thinking
    with pytest.raises(ValueError, match="n=1 is not allowed"):
        parser.rollback(1)
    parser.feed("!</think>b")
    assert [part.text for part in parser.parts] == ["!", "b"]
    assert [part.text for part in fork.parts] == [".", "a"]
    echoed = MessageParser("qwen_3", prefix="Hi", echo=True)
    other = echoed.fork()
    with pytest.raises(ParameterError):
        echoed.feed([1])
    assert [one.text for one in echoed.feed(" a")] == [one.text for one in other.feed(" a")] == ["Hi a"]


PARTIAL = {"role": "assistant", "content": "Hello, ", "reasoning_content": "I'm thinking"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_body_may_ask_for_the_rest_of_a_message(family: str) -> None:
    for last, text in (
        (PARTIAL, "world"),
        ({**PARTIAL, "content": [{"type": "text", "text": "Hello, "}]}, "world"),
    ):
        body = {"messages": [{"role": "user", "content": "Hi"}, last], "continue_final_message": True}
        for echo in (False, True):
            form = ChatFormat.from_dict({**body, "echo": echo}, family)
            parser = form.parser()
            parser.feed(text)
            content = "Hello, world" if echo else "world"
            assert form.message(parser)["content"] == content
    assert ChatFormat.from_dict({**body, "continue_final_message": False}, family).prefix == ""


def test_a_message_that_has_begun_without_thoughts_has_none() -> None:
    body = {"messages": [{"role": "assistant", "content": "Hello, ", "prefix": True}]}
    parser = ChatFormat.from_dict(body, "qwen_3", reasoning="enabled").parser()
    assert not parser.is_thinking
    parser.feed("world")
    assert texts(chat_message(parser)) == ("", "world")


@pytest.mark.skipif(
    not (DATA / "chat_cases.jsonl").exists(), reason="ENGINE_SAMPLER_TEST_DATA has no chat_cases.jsonl"
)
def test_prefilled_cases_of_llama_cpp_are_read() -> None:
    lines = (DATA / "chat_cases.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [one for one in map(json.loads, lines) if one.get("why") == "prefill joined to the answer"]
    assert cases
    for case in cases:
        want, options = case["want"], case["options"]
        if want["reasoning"] and TOOL_FAMILIES[case["family"]].thinking is None:
            continue
        is_thinking = "continue=2" in case["source"]
        last = (
            {"role": "assistant", "reasoning": "I'm"}
            if is_thinking
            else {**PARTIAL, "reasoning_content": want["reasoning"]}
        )
        body = {"messages": [last], "continue_final_message": True, "echo": True}
        form = ChatFormat.from_dict(body, case["family"], reasoning=options["reasoning"])
        parser = form.parser()
        parser.feed(case["text"])
        parser.finish()
        assert texts(form.message(parser)) == (want["reasoning"], want["content"]), case["source"]


def test_a_mask_and_its_parser_go_on_from_output_that_is_there() -> None:
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"enum": [1]}}}}]
    form = ChatFormat("qwen_3", tools, tool_choice="required", reasoning="disabled")
    begun = random_ids('<tool_call>\n{"name": "f", "argu', Random(0))
    scheduler = Scheduler(len(SPECIAL), SPECIAL, eos_token_ids=[EOS])
    parser = form.parser(SPECIAL)
    params = form.params({"max_tokens": 400, "seed": 1}, SPECIAL)
    request_id = scheduler.add(params, [1], output_token_ids=begun, parser=parser)
    random = np.random.default_rng(0)
    while scheduler.request_ids:
        scheduler.step(random.normal(0, 1, (1, len(SPECIAL))).astype(np.float32))
    assert scheduler.record(request_id).finish_reason != "error"
    assert parser.deviation is None
    assert form.message(parser)["tool_calls"][0]["function"]["name"] == "f"
