"""Custom tools are called with a text, and come in the forms that interfaces have for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine_sampler.grammar import Grammar, tool_calls
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

from .test_forms import anthropic_blocks, done_items

TOOLS: list[dict[str, Any]] = [{"type": "custom", "custom": {"name": "patch"}}]
INPUT = '*** Begin "x"\n\\d <|ca'
CALL = f'{{"name": "patch", "arguments": {{"input": {json.dumps(INPUT)}}}}}'
FUNCTION = f"<function=patch>\n<parameter=input>\n{INPUT}\n</parameter>\n</function>"
FORMS = {
    "qwen_3": f"<tool_call>\n{CALL}\n</tool_call>",
    "qwen_3_5": f"<tool_call>\n{FUNCTION}\n</tool_call>",
    "harmony": f"<|channel|>commentary to=functions.patch<|message|>{INPUT}<|call|>",
    "harmony at its end": f"<|channel|>commentary to=functions.patch<|message|>{INPUT}",
}


def read(form: str, size: int) -> tuple[MessageParser, list[Event]]:
    parser, text = MessageParser(form.split()[0], TOOLS, call_id=lambda *_: "1"), FORMS[form]
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    return parser, events + parser.finish()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_custom_tool_is_called_with_its_text(form: str, size: int) -> None:
    grammar = Grammar.from_structural_tag(tool_calls(form.split()[0], TOOLS))
    assert grammar.check(FORMS[form]).valid
    parser, events = read(form, size)
    assert parser.deviation is None
    call = {"id": "1", "type": "custom", "custom": {"name": "patch", "input": INPUT}}
    assert chat_message(parser) == {"role": "assistant", "content": None, "tool_calls": [call]}
    first, *rest = [one for delta in chat_deltas(events) for one in delta["tool_calls"]]
    assert first == {"index": 0, **call, "custom": {"name": "patch", "input": ""}}
    assert "".join(one["custom"]["input"] for one in rest) == INPUT
    assert parser.parts[0].value == INPUT
    assert parser.parts[0].is_complete


@pytest.mark.parametrize("form", FORMS)
def test_other_interfaces_have_it_in_forms_of_their_own(form: str) -> None:
    parser, events = read(form, 3)
    responses, anthropic = ResponsesStream("r"), AnthropicStream()
    streamed = responses.feed(events) + responses.finish()
    (item,) = response_items(parser, "r")
    assert (item["type"], item["id"], item["input"]) == ("custom_tool_call", "ctc_r_0", INPUT)
    assert done_items(streamed) == [item]
    assert {one["type"] for one in streamed} >= {
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
    }
    blocks = anthropic_blocks(anthropic.feed(events) + anthropic.finish())
    assert blocks == anthropic_content(parser)
    assert blocks[0]["input"] == {"input": INPUT}


def test_a_custom_tool_follows_rollbacks_and_forks() -> None:
    text = FORMS["qwen_3"]
    whole, parser = MessageParser("qwen_3", TOOLS), MessageParser("qwen_3", TOOLS)
    for character in text:
        whole.feed(character)
    for at, character in enumerate(text):
        parser.feed(character)
        fork = parser.fork()
        for other in text[at + 1 :] + "x" * 3:
            fork.feed(other)
        fork.rollback(3)
        assert fork.parts[0].text == whole.parts[0].text
