"""How requests end, and the reasons they give."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import StoppingCriteria, StopVerdict

from ..engines import EOS, VOCAB, alone, make_scheduler, model_step, outcome, run_to_end


def forced(*token_ids: int) -> np.ndarray:
    """A row for each id in which that token is certain."""
    rows = np.zeros((len(token_ids), VOCAB), np.float32)
    rows[np.arange(len(token_ids)), token_ids] = 80
    return rows


class Phrase(StoppingCriteria):
    """Ends a request once its text contains "abde"; its state is the text so far."""

    name = "phrase"

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: Any, vocabulary: Any) -> list[str]:
        return []

    def check(self, state: list[str], token_ids: Sequence[int], text: str) -> StopVerdict | None:
        state.append(text)
        return StopVerdict("phrase") if "abde" in "".join(state) else None


class Failing(StoppingCriteria):
    name = "failing"

    def check(self, state: Any, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        raise RuntimeError("out of patience")


class Babbling(StoppingCriteria):
    name = "babbling"

    def check(self, state: Any, token_ids: Sequence[int], text: str) -> Any:
        return "enough"


@pytest.mark.parametrize(
    ("settings", "token", "reasons"),
    [
        ({}, EOS, ("stop", None)),
        ({"stop_token_ids": [7, 8]}, 8, ("stop", 8)),
        ({"max_tokens": 1}, 3, ("length", "max_tokens")),
        ({"max_tokens": 1}, EOS, ("stop", None)),
        ({"max_tokens": 1, "stop_token_ids": [3]}, 3, ("stop", 3)),
        ({"max_tokens": 2}, 3, (None, None)),
    ],
)
def test_a_request_ends_with_its_reasons(settings: Any, token: int, reasons: tuple[Any, Any]) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(**settings))
    result = scheduler.step(forced(token))
    assert result.token_ids.tolist() == [token]
    assert (result.finish_reasons[0], result.stop_reasons[0]) == reasons
    assert (scheduler.request_ids == []) == (reasons[0] is not None)


def test_eos_is_a_token_without_text() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams())
    scheduler.step(forced(0))
    result = scheduler.step(forced(EOS))
    assert result.text == [""]
    assert scheduler.record(0).token_ids == [0, EOS]
    assert scheduler.record(0).text == "a"


def test_half_a_character_at_the_end_is_flushed_as_a_replacement() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(max_tokens=2))
    assert scheduler.step(forced(6)).text == [""]
    assert scheduler.step(forced(6)).text == ["\ufffd\ufffd"]


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_text_continues_a_character_that_the_prompt_ends_within(backend: str) -> None:
    scheduler = Scheduler(256, tokenizer=Tokenizer([bytes([byte]) for byte in range(256)]), backend=backend)
    prompt, *others = "中文é".encode()
    scheduler.add(SamplingParams(stop="é"), [prompt])
    rows = np.zeros((len(others), 256), np.float32)
    rows[np.arange(len(others)), others] = 80
    assert [scheduler.step(row[None]).text[0] for row in rows] == ["", "中", "", "", "文", "", ""]
    assert scheduler.record(0).text == "中文"


def test_a_request_ends_at_the_maximum_model_length() -> None:
    scheduler = make_scheduler(max_model_len=5)
    scheduler.add(SamplingParams(logit_bias={EOS: -50.0}), [1, 2])
    run_to_end(scheduler)
    record = scheduler.record(0)
    assert len(record.token_ids) == 3
    assert (record.finish_reason, record.stop_reason) == ("length", "max_model_len")


def test_a_request_ends_at_its_first_token_after_max_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(max_time=5.0))
    clock[0] = 105.0
    assert scheduler.step(forced(3)).finish_reasons == [None]
    clock[0] = 105.5
    result = scheduler.step(forced(3))
    assert (result.finish_reasons, result.stop_reasons) == (["length"], ["max_time"])


def test_a_criterion_given_as_an_object_sees_tokens_and_text_and_ends_its_request() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), request_id="own", stopping_criteria=[Phrase()])
    scheduler.add(SamplingParams(), request_id="other")
    for token in (0, 1):
        assert scheduler.step(forced(token, token)).finish_reasons == [None, None]
    result = scheduler.step(forced(9, 9))
    assert (result.finish_reasons, result.stop_reasons) == (["stop", None], ["phrase", None])
    assert scheduler.request_ids == ["other"]


def test_a_criterion_given_as_an_object_follows_resumption_forks_and_min_tokens() -> None:
    scheduler = make_scheduler()
    settings = SamplingParams(min_tokens=4)
    scheduler.add(settings, output_token_ids=[0, 1], stopping_criteria=[Phrase()])
    scheduler.fork(0)
    result = scheduler.step(forced(9, 2))
    assert result.finish_reasons == [None, None]  # its third token, of at least four
    result = scheduler.step(forced(0, 0))
    assert result.stop_reasons == ["phrase", None]


@pytest.mark.parametrize(
    ("criterion", "words"),
    [
        (Failing(), "failing failed: RuntimeError: out of patience"),
        (Babbling(), "babbling failed: it gave 'enough', which is not a StopVerdict"),
    ],
)
def test_a_failing_criterion_ends_only_its_request(criterion: StoppingCriteria, words: str) -> None:
    scheduler = make_scheduler()
    params = SamplingParams(seed=1, max_tokens=4)
    scheduler.add(params, request_id="bad", stopping_criteria=[criterion])
    scheduler.add(params, request_id="good")
    result = model_step(scheduler)
    assert result.errors == [words, None]
    assert result.finish_reasons == ["error", None]
    assert result.tokens(0) == scheduler.record("bad").token_ids
    assert len(result.tokens(0)) == 1
    run_to_end(scheduler)
    assert outcome(scheduler.record("good")) == outcome(alone(params))


def test_min_tokens_holds_back_eos_and_stop_tokens() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(min_tokens=2, stop_token_ids=[7]))
    row = forced(EOS)
    row[0, 7] = 80
    for finished in (None, None, "stop"):
        result = scheduler.step(row)
        assert result.finish_reasons == [finished]
        assert (result.token_ids[0] in (EOS, 7)) == (finished == "stop")


def test_ignore_eos_never_draws_eos() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(ignore_eos=True, max_tokens=3))
    while scheduler.request_ids:
        assert scheduler.step(forced(EOS)).token_ids[0] != EOS
    assert scheduler.record(0).finish_reason == "length"
