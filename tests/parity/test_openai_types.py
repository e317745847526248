"""What a parser's answers become, as the types of OpenAI's client describe it."""

from __future__ import annotations

from random import Random

import pytest

from engine_sampler.messages import (
    ChatChunk,
    ChatUsage,
    MessageParser,
    ResponsesStream,
    chat_deltas,
    chat_message,
    response_items,
)

from ..messages.families import random_answer, tools_of
from ..messages.replies.test_custom_tools import FORMS, INPUT, read

pytest.importorskip("openai")
pydantic = pytest.importorskip("pydantic")


@pytest.mark.parametrize("seed", range(12))
def test_items_and_events_of_the_responses_api_are_of_its_types(seed: int) -> None:
    types = pytest.importorskip("openai.types.responses")
    answer = random_answer("harmony", Random(seed))
    parser = MessageParser("harmony", tools_of(answer.calls))
    stream = ResponsesStream("1")
    events = stream.feed(parser.feed(answer.text)) + stream.feed(parser.finish()) + stream.finish()
    known = pydantic.TypeAdapter(types.ResponseStreamEvent)
    for event in events:
        read = known.validate_python(event)
        assert read.to_dict() == event
    for item in response_items(parser, "1"):
        assert pydantic.TypeAdapter(types.ResponseOutputItem).validate_python(item).to_dict() == item


@pytest.mark.parametrize("seed", range(12))
def test_messages_and_chunks_of_chats_are_of_their_types(seed: int) -> None:
    types = pytest.importorskip("openai.types.chat")
    answer = random_answer("qwen_3", Random(seed))
    parser = MessageParser("qwen_3", tools_of(answer.calls), starts_inside=bool(answer.thoughts))
    deltas = chat_deltas(parser.feed(answer.text) + parser.finish())
    types.ChatCompletionMessage.model_validate(chat_message(parser), strict=True)
    for delta in deltas:
        chunk = ChatChunk("1", "m", delta).as_dict()
        read = types.ChatCompletionChunk.model_validate(chunk, strict=True)
        assert read.choices[0].delta.to_dict() == delta
    usage = types.ChatCompletionChunk.model_validate(ChatChunk("1", "m", usage=ChatUsage(3, 4, 2)).as_dict())
    assert usage.usage.completion_tokens_details.reasoning_tokens == 2


@pytest.mark.parametrize("form", FORMS)
def test_calls_of_custom_tools_are_of_their_types(form: str) -> None:
    chats, responses = (pytest.importorskip(f"openai.types.{name}") for name in ("chat", "responses"))
    parser, events = read(form, 3)
    message = chats.ChatCompletionMessage.model_validate(chat_message(parser), strict=True)
    assert [(one.type, one.custom.name, one.custom.input) for one in message.tool_calls] == [
        ("custom", "patch", INPUT)
    ]
    stream = ResponsesStream("1")
    for event in stream.feed(events) + stream.finish():
        known = pydantic.TypeAdapter(responses.ResponseStreamEvent).validate_python(event)
        assert known.to_dict() == event
    (item,) = response_items(parser, "1")
    assert pydantic.TypeAdapter(responses.ResponseOutputItem).validate_python(item).to_dict() == item
