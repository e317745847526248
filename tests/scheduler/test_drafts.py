"""Drafts save forward passes, and never change a token."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from engine_sampler import BackendError, ParameterError, RequestError, SamplingParams
from engine_sampler.backends.numpy import NumpyBackend

from ..engines import CONFIGURATIONS, EOS, VOCAB, alone, make_scheduler, model_step, outcome, snapshot

PROMPT = [1, 2, 1]


def params_of(configuration: Any, **more: Any) -> SamplingParams:
    return SamplingParams(**{**configuration, "seed": 11, "max_tokens": 14, **more})


@pytest.mark.parametrize("quality", ["good", "bad", "mixed"])
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_run_with_drafts_equals_the_run_without(configuration: Any, quality: str) -> None:
    chance = random.Random(quality)
    params = params_of(configuration)
    expected = alone(params, PROMPT)
    scheduler = make_scheduler()
    for name in "ab":
        scheduler.add(params, PROMPT, request_id=name)
    steps, text = 0, {"a": "", "b": ""}
    while live := scheduler.request_ids:
        drafts = []
        for name in live:
            rest = expected.token_ids[len(scheduler.record(name).token_ids) :]
            length = chance.randint(0, 4)
            guess = (rest + [0] * 4)[:length]
            if quality == "bad":
                guess = [(t + 1) % VOCAB for t in guess]
            elif quality == "mixed":
                guess = [t if chance.random() < 0.7 else chance.randrange(VOCAB) for t in guess]
            drafts.append(guess)
        result = model_step(scheduler, live, drafts)
        steps += 1
        for name, delta in zip(live, result.text, strict=True):
            text[name] += delta or ""
    for name in "ab":
        assert outcome(scheduler.record(name)) == outcome(expected)
        assert text[name] == expected.text
    if quality == "good":
        assert steps < len(expected.token_ids) or len(expected.token_ids) == 1
    if quality == "bad":
        assert steps == len(expected.token_ids)


def test_nothing_is_emitted_after_a_mismatch() -> None:
    scheduler = make_scheduler()
    params = SamplingParams(temperature=0)
    expected = alone(params.replace(max_tokens=3)).token_ids
    scheduler.add(params)
    wrong = (expected[1] + 1) % VOCAB
    result = model_step(scheduler, None, [[expected[0], wrong, expected[2]]])
    assert result.token_ids.tolist() == [*expected[:2], -1, -1]
    assert result.tokens(0) == expected[:2] == scheduler.record(0).token_ids


@pytest.mark.parametrize(
    ("stop", "reason"), [({"max_tokens": 2}, "max_tokens"), ({"stop_token_ids": [7]}, 7), ({}, None)]
)
def test_nothing_is_emitted_after_a_stop(stop: Any, reason: Any) -> None:
    scheduler = make_scheduler()
    second = 7 if stop else EOS
    scheduler.add(SamplingParams(temperature=0, **stop))
    logits = np.zeros((4, VOCAB), np.float32)
    logits[[0, 1, 2, 3], [3, second, 4, 5]] = 50
    result = scheduler.step(logits, None, [[3, second, 4]])
    assert result.token_ids.tolist() == [3, second, -1, -1]
    assert result.stop_reasons == [reason]
    assert scheduler.record(0).token_ids == [3, second]


def test_requests_with_and_without_drafts_share_a_step() -> None:
    scheduler = make_scheduler()
    params = SamplingParams(temperature=0)
    expected = alone(params.replace(max_tokens=3)).token_ids
    for name in "abc":
        scheduler.add(params, request_id=name)
    result = model_step(scheduler, ["a", "b", "c"], [[], expected[:2], [VOCAB - 1 - expected[0]]])
    assert result.first_rows.tolist() == [0, 1, 4]
    assert [result.tokens(i) for i in range(3)] == [expected[:1], expected, expected[:1]]


def test_drafts_may_be_given_by_request_id() -> None:
    scheduler = make_scheduler()
    expected = alone(SamplingParams(temperature=0, max_tokens=2)).token_ids
    for name in "ab":
        scheduler.add(SamplingParams(temperature=0), request_id=name)
    logits = np.zeros((3, VOCAB), np.float32)
    logits[[0, 1, 2], [expected[0], expected[0], expected[1]]] = 50
    result = scheduler.step(logits, draft_token_ids={"b": [expected[0]]})
    assert [result.tokens(0), result.tokens(1)] == [expected[:1], expected]


@pytest.mark.parametrize(
    ("drafts", "error", "words"),
    [
        ([[VOCAB]], ParameterError, f"draft_token_ids names token id {VOCAB}"),
        ([[-1]], ParameterError, "draft_token_ids names token id -1"),
        ([[1.5]], ParameterError, "a list of token ids"),
        ([[], []], RequestError, "2 entries for 1 requests"),
        ({"unknown": [1]}, RequestError, "'unknown', which has no rows"),
        ([[1]], ValueError, "logits have 1 rows; the requests and drafts need 2"),
    ],
)
def test_wrong_drafts_are_refused_before_anything_changes(drafts: Any, error: Any, words: str) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(mirostat=2, seed=1))
    model_step(scheduler)
    before = snapshot(scheduler)
    with pytest.raises(error, match=words):
        scheduler.step(np.zeros((1, VOCAB), np.float32), None, drafts)
    assert snapshot(scheduler) == before


class BreaksAt(NumpyBackend):
    """Breaks its contract in one of its runs, after it has drawn tokens."""

    name = "breaks"
    broken_run = 0

    def run(self, batch: Any) -> None:
        super().run(batch)
        self.broken_run -= 1
        if self.broken_run == 0:
            raise BackendError("broken")


@pytest.mark.parametrize("logprobs", [None, 2])
def test_a_backend_that_breaks_on_drafts_loses_no_token_that_was_drawn(logprobs: int | None) -> None:
    backend = BreaksAt()
    scheduler = make_scheduler(backend=backend)
    scheduler.add(SamplingParams(temperature=0, logprobs=logprobs))
    logits = np.zeros((3, VOCAB), np.float32)
    logits[range(3), [4, 5, 6]] = 9
    backend.broken_run = 2
    result = scheduler.step(logits, None, [[4, 5]])
    assert result.token_ids.tolist() == [4, -1, -1]
    assert scheduler.record(0).token_ids == [4]
    if logprobs:
        assert result.logprobs.row(0).token_ids[0] == 4
        assert (result.logprobs.token_ids[1:] == -1).all()
    backend.broken_run = 1
    with pytest.raises(BackendError, match="broken"):
        scheduler.step(logits, None, [[5, 6]])
    assert scheduler.record(0).token_ids == [4]
