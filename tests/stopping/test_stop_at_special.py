"""A stop string that is the name of a special token ends a request at that token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_sampler import Record, SamplingParams, Scheduler, Tokenizer, sample
from engine_sampler.contract import TextMatch
from engine_sampler.stopping import StopStringCriteria
from engine_sampler.stopping._strings import StringMatcher

PIECES = [b"Hi", b"mor", b"a", b"ab", b"<|", b"end|>", b"\xc3", b"\xa9"]
END, OTHER, TOOL, EOS = range(len(PIECES), len(PIECES) + 4)
TOKENIZER = Tokenizer(
    [*PIECES, b"<|end|>", b"<|other|>", b"<tool>", b"</s>"],
    eos_token_ids=[EOS],
    special_token_ids=[END, OTHER],
    added_token_ids=[TOOL],
)
VOCAB = len(TOKENIZER)
STOP = "<|end|>"


def row(*tokens: int) -> np.ndarray:
    """Logits [vocab] under which the first of `tokens` is the best, then the next."""
    logits = np.zeros(VOCAB, np.float32)
    logits[list(tokens)] = np.arange(9, 9 - len(tokens), -1)
    return logits


def run(
    tokens: Sequence[int], backend: str = "numpy", drafts: int = 0, **parameters: Any
) -> tuple[Record, str]:
    """The record of a request whose model wants `tokens`, and its streamed text."""
    scheduler = Scheduler(VOCAB, TOKENIZER, backend=backend)
    request_id = scheduler.add(SamplingParams(temperature=0, **parameters))
    streamed, at = "", 0
    while at < len(tokens) and scheduler.request_ids:
        ahead = tokens[at : at + 1 + drafts]
        result = scheduler.step(np.stack([row(t, 0) for t in ahead]), draft_token_ids=[ahead[:-1]])
        at += len(result.tokens(0))
        streamed += result.text[0] or ""
    return scheduler.record(request_id), streamed


@pytest.mark.parametrize(
    ("tokens", "parameters", "count", "text", "reason"),
    [
        ([0, END, 1], {}, 2, "Hi", STOP),
        ([0, END, 1], {"skip_special_tokens": False}, 2, "Hi", STOP),
        ([0, END, 1], {"include_stop_str_in_output": True}, 2, "Hi", STOP),
        (
            [0, END, 1],
            {"include_stop_str_in_output": True, "skip_special_tokens": False},
            2,
            "Hi<|end|>",
            STOP,
        ),
        ([0, 4, 5, 1], {}, 3, "Hi", STOP),
        ([0, 4, 5, 1], {"include_stop_str_in_output": True}, 3, "Hi<|end|>", STOP),
        ([0, OTHER, 1, END], {}, 4, "Himor", STOP),
        ([0, OTHER, 1, EOS], {}, 4, "Himor", None),
        ([0, TOOL, 1], {"stop": ["<tool>"]}, 2, "Hi", "<tool>"),
        ([2, END], {"stop": ["ab", STOP]}, 2, "a", STOP),
        ([6, END], {}, 2, "\ufffd", STOP),
        ([0, END, 1, EOS], {"stop": ["end"]}, 4, "Himor", None),
        ([0, EOS], {"stop": ["</s>"]}, 2, "Hi", None),
    ],
)
@pytest.mark.parametrize("drafts", [0, 2])
def test_the_token_ends_the_request_and_its_name_is_not_in_the_text(
    tokens: list[int], parameters: dict[str, Any], count: int, text: str, reason: str | None, drafts: int
) -> None:
    record, streamed = run(tokens, drafts=drafts, **{"stop": [STOP], **parameters})
    assert (record.text, record.finish_reason, record.stop_reason) == (text, "stop", reason)
    assert (streamed, record.token_ids) == (text, tokens[:count])


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_min_tokens_masks_it(backend: str) -> None:
    record, streamed = run([1, END, END, END], backend, stop=[STOP], min_tokens=3)
    assert (record.token_ids, record.text) == ([1, 0, 0, END], "morHiHi")
    assert (streamed, record.stop_reason) == ("morHiHi", STOP)


def test_min_tokens_masks_it_without_a_scheduler() -> None:
    params = SamplingParams(temperature=0, stop=[STOP, "Hi"], min_tokens=1)
    assert sample(row(END, 0)[None], params, tokenizer=TOKENIZER).token_ids.tolist() == [0]


def test_within_min_tokens_one_that_comes_nevertheless_does_not_count() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    request_id = scheduler.add(SamplingParams(temperature=0, stop=[STOP], min_tokens=2))
    for tokens, finish_reason in (([END], None), ([0], None), ([END], "stop")):
        scheduler.accept(request_id, tokens)
        assert scheduler.record(request_id).finish_reason == finish_reason


def test_forks_and_rolled_back_requests_end_at_it() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    parent = scheduler.add(SamplingParams(temperature=0, stop=[STOP]))
    scheduler.step(row(0)[None])
    child = scheduler.fork(parent)
    result = scheduler.step(np.stack([row(1), row(END)]))
    assert result.stop_reasons == [None, STOP]
    scheduler.rollback(parent, 1)
    assert scheduler.step(row(END)[None]).stop_reasons == [STOP]
    assert [scheduler.record(i).text for i in (parent, child)] == ["Hi", "Hi"]


def test_output_that_a_request_starts_with_does_not_end_it() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(SamplingParams(temperature=0, stop=[STOP]), [0, END], output_token_ids=[0, END])
    assert scheduler.step(row(0)[None]).stop_reasons == [None]
    assert scheduler.step(row(END)[None]).stop_reasons == [STOP]


@pytest.mark.parametrize("min_tokens", [0, 2])
def test_thoughts_do_not_end_at_it(min_tokens: int) -> None:
    thinking = {"start": ["<|"], "end": ["end|>"], "starts_inside": True}
    tokens = [0, END, 5, 1, END, END]
    record, _ = run(tokens, stop=[STOP], thinking=thinking, min_tokens=min_tokens)
    assert record.token_ids == ([0, END, 5, 1, 0, END] if min_tokens else tokens[:5])
    assert (record.finish_reason, record.stop_reason) == ("stop", STOP)


def test_a_criterion_with_its_own_strings_ends_any_request_at_it() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    criterion = StopStringCriteria(TOKENIZER, [STOP])
    scheduler.add(SamplingParams(temperature=0), stopping_criteria=[criterion])
    assert scheduler.step(row(END)[None]).stop_reasons == [STOP]
    assert criterion(np.array([[0, END], [END, 0], [4, 5]]), None).tolist() == [True, False, True]


def plain_end(tokens: Sequence[int], stop: Sequence[str], skips: bool) -> Iterator[tuple[int, bytes, str]]:
    """The first end of an output, if there is one: its length in tokens, its text, and the string."""
    text = b""
    for count, token in enumerate(tokens, 1):
        before, text = text, text + TOKENIZER.text_bytes(token, skips)
        for end in range(len(before) + 1, len(text) + 1):
            for string in stop:
                if text[:end].endswith(string.encode()):
                    yield count, text[: end - len(string.encode())], string
        if TOKENIZER.hidden_name(token, skips).decode() in stop:
            yield count, text, TOKENIZER.token_bytes[token].decode()


@given(
    st.lists(st.sampled_from(range(EOS)), min_size=1, max_size=12),
    st.lists(st.sampled_from([STOP, "<|other|>", "ab", "Hi<|end|>", "é", "<tool>", "a<|", "rH"]), max_size=4),
    st.booleans(),
    st.integers(0, 3),
)
def test_the_first_of_strings_and_special_tokens_ends_the_text(
    tokens: list[int], stop: list[str], skips: bool, drafts: int
) -> None:
    tokens.append(EOS)
    whole = b"".join(TOKENIZER.text_bytes(token, skips) for token in tokens)
    ends = plain_end(tokens, stop, skips)
    count, text, reason = next(ends, (len(tokens), whole, None))
    record, streamed = run(tokens, drafts=drafts, stop=stop, skip_special_tokens=skips)
    assert (record.token_ids, record.stop_reason) == (tokens[:count], reason)
    assert streamed == record.text == text.decode(errors="replace")


@pytest.mark.parametrize("found", [True, (0, 0, "x"), TextMatch(0, 1, "x"), TextMatch(0, 0, [])])  # type: ignore[arg-type]
def test_a_wrong_match_at_a_special_token_ends_its_request_alone(found: Any) -> None:
    class Wrong(StringMatcher):
        def at_special(self, name: bytes) -> Any:
            return found

    class WrongCriterion(StopStringCriteria):
        def matcher(self, *arguments: Any) -> StringMatcher:
            return Wrong(["x"])

    scheduler = Scheduler(VOCAB, TOKENIZER)
    for criteria in ([WrongCriterion()], []):
        scheduler.add(SamplingParams(temperature=0), stopping_criteria=criteria)
    result = scheduler.step(np.stack([row(END), row(END)]))
    assert result.finish_reasons == ["error", None]
    assert "Wrong failed: TypeError: it gave" in str(result.errors[0])
