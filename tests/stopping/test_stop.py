from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestLimits, SamplingParams, Scheduler, Tokenizer
from engine_sampler.stopping import StopStringCriteria

PIECES = [bytes([byte]) for byte in range(128)] + [b"<s>", b"ab", b"cab", "né".encode()[:2], b"\xa9"]
EOS = 128
TOKENIZER = Tokenizer(PIECES, [EOS])


def row(token: int) -> np.ndarray:
    logits = np.zeros(len(PIECES), np.float32)
    logits[token] = 9
    return logits


def run(tokens: list[int], **parameters: Any) -> tuple[Any, str]:
    """The record of a request that is given `tokens`, and its streamed text."""
    scheduler = Scheduler(len(PIECES), TOKENIZER, limits=RequestLimits(stop=None))
    request_id = scheduler.add(SamplingParams(temperature=0, **parameters))
    streamed = ""
    for token in tokens:
        streamed += scheduler.step(row(token)[None]).text[0] or ""
        if not scheduler.request_ids:
            break
    return scheduler.record(request_id), streamed


@pytest.mark.parametrize(
    ("tokens", "stop", "count", "text", "reason"),
    [
        (list(b"one two"), ["e t"], 5, "on", "e t"),
        ([*b"x", 130, *b"y"], ["ab"], 2, "xc", "ab"),
        ([*b"x", 130, *b"y"], ["ca"], 2, "x", "ca"),
        ([131, 132], ["né"], 2, "", "né"),
        ([131, 132], ["é"], 2, "n", "é"),
        (list(b"aXbX"), ["bX", "X"], 2, "a", "X"),
        (list(b"abc"), ["bc", "abc"], 3, "a", "bc"),
        (list(b"abc"), ["abc", "bc"], 3, "", "abc"),
        (list(b"zz"), "zz", 2, "", "zz"),
    ],
)
def test_a_string_is_cut_off_wherever_its_tokens_begin_and_end(
    tokens: list[int], stop: Any, count: int, text: str, reason: str
) -> None:
    record, streamed = run(tokens, stop=stop)
    assert (record.text, record.finish_reason, record.stop_reason) == (text, "stop", reason)
    assert streamed == text
    assert len(record.token_ids) == count


def test_the_string_stays_if_requested_and_the_text_after_it_is_dropped() -> None:
    record, streamed = run([*b"x", 130, *b"y"], stop=["ca"], include_stop_str_in_output=True)
    assert record.text == streamed == "xca"


def test_eos_releases_what_was_held_back() -> None:
    record, streamed = run([*b"sto", EOS], stop=["stop"])
    assert (record.text, record.stop_reason) == ("sto", None)
    assert streamed == "sto"


def test_the_prompt_does_not_count() -> None:
    scheduler = Scheduler(len(PIECES), TOKENIZER)
    scheduler.add(SamplingParams(temperature=0, stop=["ab"]), list(b"a"))
    assert scheduler.step(row(ord("b"))[None]).finish_reasons == [None]


def test_a_string_in_the_middle_of_a_speculative_step_drops_what_follows() -> None:
    scheduler = Scheduler(len(PIECES), TOKENIZER)
    scheduler.add(SamplingParams(temperature=0, stop=["bc"]))
    tokens = list(b"abcde")
    rows = np.stack([row(token) for token in tokens])
    result = scheduler.step(rows, draft_token_ids=[tokens[:-1]])
    assert result.token_ids.tolist() == [*b"abc", -1, -1]
    assert (result.text, result.stop_reasons) == (["a"], ["bc"])


def test_a_resumed_request_finds_a_string_that_began_before() -> None:
    scheduler = Scheduler(len(PIECES), TOKENIZER)
    scheduler.add(SamplingParams(temperature=0, stop=["bcd"]), output_token_ids=list(b"abc"))
    result = scheduler.step(row(ord("d"))[None])
    assert (result.stop_reasons, scheduler.record(0).text) == (["bcd"], "a")


def test_after_a_rollback_the_string_is_searched_for_again() -> None:
    scheduler = Scheduler(len(PIECES), TOKENIZER)
    scheduler.add(SamplingParams(temperature=0, stop=["abc"]))
    for token in b"ab":
        scheduler.step(row(token)[None])
    scheduler.rollback(0, 1)
    assert scheduler.step(row(ord("c"))[None]).text == ["ac"]


def test_a_criterion_with_its_own_strings_ends_any_request() -> None:
    scheduler = Scheduler(len(PIECES), TOKENIZER)
    scheduler.add(SamplingParams(temperature=0), stopping_criteria=[StopStringCriteria(stop_strings=["q"])])
    assert scheduler.step(row(ord("q"))[None]).stop_reasons == ["q"]


def test_many_strings_are_one_automaton() -> None:
    strings = [f"stop{i}!" for i in range(2000)]
    record, _ = run(list(b"a stop1999! b"), stop=strings)
    assert (record.text, record.stop_reason) == ("a ", "stop1999!")


@pytest.mark.parametrize("value", ["", [""], [3], {"a": 1}, b"a", ["a", "\ud800"], ["a" * 40000]])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="stop="):
        SamplingParams(stop=value)


def test_text_needs_a_tokenizer() -> None:
    with pytest.raises(ParameterError, match="needs a tokenizer"):
        Scheduler(9).add(SamplingParams(stop=["a"]))


class Columns:
    """Rows of tokens that record how many columns are read at a time."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.read = rows, []
        self.shape, self.ndim = rows.shape, rows.ndim

    def __getitem__(self, where: Any) -> np.ndarray:
        columns = self.rows[where]
        self.read.append(columns.shape[1])
        return columns


def test_a_call_reads_no_more_tokens_than_a_string_can_span() -> None:
    tokenizer = Tokenizer([bytes((i,)) for i in range(256)] + [b"", b"", b"ab"])
    criterion = StopStringCriteria(tokenizer, ["cab", "x"])
    text = np.full((3, 50_000), ord("-"))
    text[0, -2:] = ord("c"), 258
    text[1, -1] = ord("x")
    columns = Columns(text)
    assert criterion(columns, None).tolist() == [True, True, False]
    assert columns.read == [3]
    text[0, -9:] = ord("c"), *[256] * 7, 258  # tokens without bytes lie between
    assert criterion(columns, None).tolist() == [True, True, False]
    assert columns.read == [3, 3, 6, 12]


def test_a_criterion_that_is_called_needs_a_tokenizer() -> None:
    with pytest.raises(ValueError, match="tokenizer=None is not allowed"):
        StopStringCriteria(stop_strings=["a"])(np.array([[1, 2]]), None)
