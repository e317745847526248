"""What servers send."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_sampler import Logprobs, Tokenizer
from engine_sampler.messages import (
    ChatChoice,
    ChatChunk,
    ChatCompletion,
    ChatUsage,
    MessageParser,
    TextOffset,
    chat_finish_reason,
    chat_logprobs,
    completion_logprobs,
)
from engine_sampler.requests.detokenizer import Detokenizer

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
    assert (second["token"], second["bytes"]) == (r"\xc3", [0xC3])
    assert [one["token"] for one in second["top_logprobs"]] == ["c", r"\xc3"]
    old = completion_logprobs(TOKENIZER, logprobs(), range(2), text_offset=10)
    assert old["tokens"] == ["b", r"bytes:\xc3"]
    assert old["text_offset"] == [10, 11]
    assert list(old["top_logprobs"][0].items()) == [("b", -0.5), ("a", -1.5)]
    json.dumps(old, allow_nan=False)
    assert chat_logprobs(TOKENIZER, Logprobs.empty(2, 1), range(2))["content"] == []


def rows_of(*rows: dict[int, float]) -> Logprobs:
    """The logprobs of some tokens for each row, the chosen one first."""
    entries = [entry for row in rows for entry in row.items()]
    token_ids, values = zip(*entries, strict=True)
    starts = np.cumsum([0, *map(len, rows)])
    return Logprobs(np.array(token_ids), np.array(values, np.float32), starts, np.ones(len(rows), np.int64))


@pytest.mark.parametrize(
    ("pieces", "row", "token_logprob", "top"),
    [
        ([b"x", b"y", b"x"], {0: -0.5, 2: -1.5, 1: -1.625}, -0.5, {"x": -0.5, "y": -1.625}),
        ([b"x", b"y", b"x"], {2: -1.5, 0: -0.5, 1: -1.625}, -1.5, {"x": -0.5, "y": -1.625}),
        ([b" \xe4", b"\\\xb8"], {0: -1.0, 1: -2.0}, -1.0, {r"bytes: \xe4": -1.0, r"bytes:\x5c\xb8": -2.0}),
    ],
)
def test_of_tokens_with_the_same_text_the_likeliest_is_listed(
    pieces: list[bytes], row: dict[int, float], token_logprob: float, top: dict[str, float]
) -> None:
    form = completion_logprobs(Tokenizer(pieces), rows_of(row), [0])
    assert (form["token_logprobs"], form["top_logprobs"]) == ([token_logprob], [top])


def test_offsets_count_only_characters_that_are_sent() -> None:
    character = [bytes([byte]) for byte in "中".encode()]
    tokenizer = Tokenizer([*character, b"A", b"<think>", b"B"], special_token_ids=[4])
    answer = rows_of(*({token_id: -1.0} for token_id in range(6)))
    whole = completion_logprobs(tokenizer, answer, range(6))
    assert whole["text_offset"] == [0, 0, 0, 1, 2, 2]
    place = TextOffset(tokenizer)
    chunks = [completion_logprobs(tokenizer, answer, rows, place) for rows in ([0], [1, 2, 3], [4], [5])]
    assert [offset for chunk in chunks for offset in chunk["text_offset"]] == whole["text_offset"]
    shown = TextOffset(tokenizer, 7, skip_special_tokens=False)
    assert completion_logprobs(tokenizer, answer, range(6), shown)["text_offset"] == [7, 7, 7, 8, 9, 16]


PIECES = st.sampled_from(
    [*(bytes([byte]) for byte in "aé中🙂".encode()), b"", b"\xff", "é".encode(), b"\xa9a\xe4"]
)


@given(
    st.lists(PIECES, min_size=1, max_size=12).flatmap(
        lambda pieces: st.tuples(
            st.just(pieces),
            st.sets(st.sampled_from(range(len(pieces)))),
            st.lists(st.sampled_from(range(len(pieces))), min_size=1),
            st.lists(st.sampled_from(range(len(pieces))), max_size=4),
        )
    ),
    st.booleans(),
    st.integers(1, 4),
)
def test_offsets_are_those_of_the_streamed_text(
    drawn: tuple[list[bytes], set[int], list[int], list[int]], skips: bool, width: int
) -> None:
    pieces, special, token_ids, prompt = drawn
    tokenizer = Tokenizer(pieces, special_token_ids=special)
    stream, streamed = Detokenizer(tokenizer, skips), [0]
    stream.begin(prompt)
    for token_id in token_ids:
        stream.push(token_id)
        streamed.append(len(stream.text))
    answer = rows_of(*({token_id: -1.0} for token_id in token_ids))
    place = TextOffset(tokenizer, 0, skips, prompt)
    offsets: list[int] = []
    for begin in range(0, len(token_ids), width):
        rows = range(begin, min(begin + width, len(token_ids)))
        offsets += completion_logprobs(tokenizer, answer, rows, place)["text_offset"]
    assert [*offsets, place.characters] == streamed


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


@pytest.mark.parametrize("reason", ["length", "error", "abort"])
def test_an_answer_that_broke_off_says_so_whatever_it_calls(reason: str) -> None:
    parser = MessageParser("qwen_3")
    assert chat_finish_reason(parser, reason) == reason
    parser.feed('<tool_call>{"name": "f", "arguments": {}}</tool_call>')
    assert chat_finish_reason(parser, reason) == reason
