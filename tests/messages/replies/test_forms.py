"""Answers in the forms of other interfaces: what is streamed is in sum what is said in the end."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from engine_sampler.messages import (
    AnthropicStream,
    Event,
    MessageParser,
    ResponsesStream,
    anthropic_content,
    chat_deltas,
    chat_message,
    response_items,
)

from ..families import random_answer
from ..laws import FAMILIES, feed, parser_of, pieces_of
from ..test_laws import ROUNDS


def message_of(deltas: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The message that a client of OpenAI's puts together."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for delta in deltas:
        for field in {"content", "reasoning", "reasoning_content"} & delta.keys():
            message[field] = (message.get(field) or "") + delta[field]
        for call in delta.get("tool_calls", ()):
            calls = message.setdefault("tool_calls", [])
            if call["index"] == len(calls):
                calls.append({"id": call["id"], "type": call["type"], "function": dict(call["function"])})
            else:
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    if not {"reasoning_content", "tool_calls"} & message.keys():
        message["content"] = message["content"] or ""
    return message


def anthropic_blocks(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks that a client of Anthropic's puts together."""
    blocks: list[dict[str, Any]] = []
    partial = ""
    open_block: int | None = None
    for event in events:
        if event["type"] == "content_block_start":
            assert (open_block, event["index"]) == (None, len(blocks))
            open_block, partial = event["index"], ""
            blocks.append(dict(event["content_block"]))
            continue
        assert event["index"] == open_block
        if event["type"] == "content_block_stop":
            if blocks[-1]["type"] == "tool_use":
                blocks[-1]["input"] = json.loads(partial or "{}")
            open_block = None
        elif event["delta"]["type"] == "input_json_delta":
            partial += event["delta"]["partial_json"]
        else:
            field = event["delta"]["type"].removesuffix("_delta")
            blocks[-1][field] += event["delta"][field]
    assert open_block is None
    return blocks


def done_items(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items that a stream of the Responses API ends with, each of which its deltas give as well."""
    items: list[dict[str, Any]] = []
    text = ""
    for number, event in enumerate(events):
        assert event["sequence_number"] == number
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == len(items)
            text = ""
        elif event["type"].endswith(".delta"):
            text += event["delta"]
        elif event["type"] == "response.output_item.done":
            item = event["item"]
            called = item.get("arguments", item.get("input"))
            assert text == (item["content"][0]["text"] if called is None else called)
            items.append(item)
    return items


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_deltas_are_in_sum_the_message(family: str) -> None:
    for seed in range(4 * ROUNDS):
        random = Random(seed)
        answer = random_answer(family, random)
        tokenizer, pieces = pieces_of(answer, random, seed % 3)
        parser = parser_of(family, answer, tokenizer=tokenizer)
        deltas, blocks, items = [], [], []
        anthropic, responses = AnthropicStream(), ResponsesStream("1")
        for piece in [*pieces, None]:
            events = parser.finish() if piece is None else feed(parser, piece)
            deltas += chat_deltas(events)
            blocks += anthropic.feed(events)
            items += responses.feed(events)
        blocks += anthropic.finish()
        items += responses.finish()
        assert message_of(deltas) == chat_message(parser)
        assert anthropic_blocks(blocks) == anthropic_content(parser)
        assert done_items(items) == response_items(parser, "1")


HERMES = '<tool_call>\n{"name": "f", "arguments": {"a": "b"}}\n</tool_call>'


def read_whole(text: str, family: str | None = "qwen_3", **options: Any) -> tuple[MessageParser, list[Event]]:
    options.setdefault("call_id", lambda index, name, given: f"call_{index}")
    parser = MessageParser(family, **options)
    return parser, parser.feed(text) + parser.finish()


def test_a_message_of_openai() -> None:
    parser, _ = read_whole(f"<think>Hm.</think>\n\nI call it.{HERMES}\n{HERMES}")
    call = {"type": "function", "function": {"name": "f", "arguments": '{"a": "b"}'}}
    assert chat_message(parser) == {
        "role": "assistant",
        "content": "I call it.",
        "reasoning": "Hm.",
        "reasoning_content": "Hm.",
        "tool_calls": [{"id": "call_0", **call}, {"id": "call_1", **call}],
    }
    assert chat_message(read_whole(HERMES)[0])["content"] is None
    assert chat_message(read_whole("")[0]) == {"role": "assistant", "content": ""}


@pytest.mark.parametrize("keys", [("reasoning",), ("reasoning_content",), ()], ids=str)
def test_thoughts_have_the_keys_that_a_server_wants(keys: tuple[str, ...]) -> None:
    parser, events = read_whole("<think>Hm.</think>Hi")
    thoughts = dict.fromkeys(keys, "Hm.")
    assert chat_deltas(events, keys) == [*([thoughts] if keys else []), {"content": "Hi"}]
    assert chat_message(parser, keys) == {"role": "assistant", "content": "Hi", **thoughts}


def test_blocks_of_anthropic() -> None:
    parser, events = read_whole(f"<think>Hm.</think>\n\nI call it.{HERMES}")
    assert anthropic_content(parser) == [
        {"type": "thinking", "thinking": "Hm.", "signature": ""},
        {"type": "text", "text": "I call it."},
        {"type": "tool_use", "id": "call_0", "name": "f", "input": {"a": "b"}},
    ]
    assert [one["type"] for one in AnthropicStream().feed(events)] == [
        *(f"content_block_{what}" for _ in range(3) for what in ("start", "delta", "stop"))
    ]


def test_items_of_the_responses_api() -> None:
    parser, _ = read_whole(f"<think>Hm.</think>\n\nI call it.{HERMES}")
    items = response_items(parser, "7")
    assert [(one["type"], one["id"], one["status"]) for one in items] == [
        ("reasoning", "rs_7_0", "completed"),
        ("message", "msg_7_1", "completed"),
        ("function_call", "fc_7_2", "completed"),
    ]
    assert items[2]["call_id"] == "call_0"
    cut, _ = read_whole(HERMES[:45])
    assert response_items(cut, "7")[0]["status"] == "incomplete"


def test_ids_of_calls_differ_between_answers_unless_the_text_gives_them() -> None:
    ids = set()
    for _ in range(3):
        parser = MessageParser("qwen_3")
        parser.feed(HERMES + HERMES)
        ids.update(one.id for one in parser.parts)
    assert len(ids) == 6
    kimi = "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>{}"
    parser = MessageParser("kimi")
    parser.feed(kimi + "<|tool_call_end|><|tool_calls_section_end|>")
    assert [(one.name, one.id) for one in parser.parts] == [("f", "functions.f:3")]
