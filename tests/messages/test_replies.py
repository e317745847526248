"""What servers send."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine_sampler import Logprobs, ParameterError, SamplingParams, Tokenizer
from engine_sampler.messages import (
    ChatChoice,
    ChatChunk,
    ChatCompletion,
    ChatUsage,
    MessageParser,
    chat_finish_reason,
    chat_logprobs,
    completion_logprobs,
    error_body,
)

TOKENIZER = Tokenizer([b"a", b"b", b"\xc3", b"c"])


def logprobs() -> Logprobs:
    """Of two rows: b before a, c; the first byte of a character, with −inf for a."""
    return Logprobs(
        np.array([1, 1, 0, 2, 3, 0]),
        np.array([-0.5, -0.5, -1.5, -2.0, -0.25, -np.inf], np.float32),
        np.array([0, 3, 6]),
        np.array([1, 2]),
    )


def test_a_completion_and_its_chunks() -> None:
    usage = ChatUsage(3, 5, reasoning_tokens=2)
    message = {"role": "assistant", "content": "x"}
    whole = ChatCompletion("1", "m", [ChatChoice(message, "stop")], usage, created=7).as_dict()
    assert whole["choices"] == [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}]
    assert whole["usage"]["total_tokens"] == 8
    assert whole["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    chunk = ChatChunk("1", "m", {"content": "é"}, 1, "length", created=7)
    assert chunk.as_dict()["choices"] == [
        {"index": 1, "delta": {"content": "é"}, "logprobs": None, "finish_reason": "length"}
    ]
    assert json.loads(chunk.as_event().removeprefix("data: ")) == chunk.as_dict()
    last = ChatChunk("1", "m", usage=usage, created=7).as_dict()
    assert (last["choices"], last["usage"]) == ([], usage.as_dict())
    assert isinstance(ChatChunk("1", "m").created, int)


def test_logprobs_in_both_forms() -> None:
    first, second = chat_logprobs(TOKENIZER, logprobs(), range(2))["content"]
    assert (first["token"], first["bytes"], first["logprob"]) == ("b", [98], -0.5)
    assert [one["token"] for one in first["top_logprobs"]] == ["b", "a"]
    assert (second["token"], second["bytes"]) == ("\ufffd", [0xC3])
    assert [one["token"] for one in second["top_logprobs"]] == ["c", "\ufffd"]
    old = completion_logprobs(TOKENIZER, logprobs(), range(2), text_offset=10)
    assert old["tokens"] == ["b", "\ufffd"]
    assert old["text_offset"] == [10, 11]
    assert old["top_logprobs"][0] == {"b": -0.5, "a": -1.5}
    json.dumps(old, allow_nan=False)
    assert chat_logprobs(TOKENIZER, Logprobs.empty(2, 1), range(2))["content"] == []


def test_an_answer_with_calls_ended_by_them() -> None:
    parser = MessageParser("qwen_3")
    assert [chat_finish_reason(parser, one) for one in (None, "stop", "length", "repetition")] == [
        None,
        "stop",
        "length",
        "stop",
    ]
    parser.feed('<tool_call>{"name": "f", "arguments": {}}</tool_call>')
    assert chat_finish_reason(parser, "stop") == "tool_calls"
    assert chat_finish_reason(parser, "length") == "length"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"top_p": 7}, "top_p"),
        ({"top_q": 1}, "top_q"),
        ({"stop": 5}, "stop"),
        ({"logit_bias": 1}, "logit_bias"),
    ],
)
def test_an_error_names_its_parameter(body: dict[str, object], name: str) -> None:
    with pytest.raises(ParameterError) as refused:
        SamplingParams.from_dict(body)
    error = error_body(refused.value)["error"]
    assert (error["param"], error["type"]) == (name, "invalid_request_error")
    assert error["message"] == str(refused.value)
