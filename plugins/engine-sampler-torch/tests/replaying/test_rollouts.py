"""What a rollout may have had beside chains: phases, grammars, drafts, long outputs; and other logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import ReplayRecord, replay
from engine_sampler_torch.replaying import walk
from random_rollouts import Rollout, normal_logits, random_params

from engine_sampler import RequestLimits, SamplingMask, SamplingParams, Scheduler
from engine_sampler.testing import times
from tests.random_chains import tokenizer

SIZE = 97
PENALTIES: Mapping[str, Any] = {"repetition_penalty": 1.3, "presence_penalty": 0.2, "dry_multiplier": 0.8}
PHASES = [
    {"tokens": 3, "params": {"temperature": 1.5}},
    {"tokens": 2, "force": [5, 6], "params": {"presence_penalty": 1.0}},
    {},
]
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "phases with parameters of their own, and forced tokens": {**PENALTIES, "phases": PHASES, "top_k": 9},
    "a grammar": {**PENALTIES, "regex": "[ab\n]*", "temperature": 0.8},
    "a grammar that only favours": {"regex": "(ab)*", "grammar_bias": 2.0, "top_p": 0.9, "temperature": 0.8},
    "mirostat": {"mirostat": 2, "temperature": 1.2},
    "the best token": {**PENALTIES, "temperature": 0.0},
    "no parameters": {},
}


def expect_equal(rollout: Rollout) -> None:
    found = replay(rollout.logits, rollout.records, tokenizer=tokenizer(SIZE))
    np.testing.assert_array_equal(found.numpy().view(np.int32), rollout.logprobs.view(np.int32))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_settings_are_replayed_bit_for_bit(settings: Mapping[str, Any]) -> None:
    rollout = Rollout(
        np.random.default_rng(2), [SamplingParams(**settings)] * 2, SIZE, 12, draw_logits=normal_logits
    )
    assert len(rollout) > 12
    expect_equal(rollout)


@pytest.mark.parametrize("most_rows", [1, 5])
def test_long_outputs_are_walked_through_in_parts(monkeypatch: pytest.MonkeyPatch, most_rows: int) -> None:
    every = [SamplingParams(**settings) for settings in SETTINGS.values()]
    rollout = Rollout(np.random.default_rng(2), every, SIZE, 12, draw_logits=normal_logits)
    monkeypatch.setattr(walk, "_MOST_ROWS", most_rows)
    expect_equal(rollout)


def test_an_output_may_go_on_after_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    params = SamplingParams(**PENALTIES, logit_bias={0: 3.0}, top_k=9, seed=3, return_sampling_mask=-1)
    scheduler = Scheduler(SIZE, limits=RequestLimits.none())  # which knows no EOS
    scheduler.add(params, [1, 2], request_id="a")
    logits, tokens, masks = normal_logits(np.random.default_rng(5), 12, SIZE), [], []
    for i in range(12):
        result = scheduler.step(logits[i : i + 1])
        assert result.sampling_mask is not None
        tokens += result.tokens(0)
        masks.append(result.sampling_mask)
    assert 0 in tokens[:8]
    monkeypatch.setattr(walk, "_MOST_ROWS", 2)
    mask = SamplingMask.concatenate(masks)
    record = ReplayRecord(params.replace(dry_sequence_breakers=[]), [1, 2], tokens, mask)
    assert 0 in tokenizer(SIZE).eos_token_ids
    logprobs = replay(torch.from_numpy(logits), record, tokenizer=tokenizer(SIZE))
    np.testing.assert_array_equal(logprobs.numpy(), mask.logprobs)


def test_requests_of_one_call_keep_their_parameters() -> None:
    random = np.random.default_rng(6)
    rollout = Rollout(random, [random_params(random, SIZE) for _ in range(12)], SIZE, 7)
    whole = replay(rollout.logits, rollout.records, tokenizer=tokenizer(SIZE))
    row = 0
    for record in rollout.records:
        rows = slice(row, row + len(record.sampling_mask))
        alone = replay(rollout.logits[rows], record, tokenizer=tokenizer(SIZE))
        assert torch.equal(alone, whole[rows])
        row = rows.stop


def test_records_may_have_been_written_as_json() -> None:
    rollout = Rollout(np.random.default_rng(7), [SamplingParams(**PENALTIES, top_k=9)] * 2, SIZE, 6)
    rollout.records = [
        replace(
            record,
            params=record.chosen.to_dict(),
            sampling_mask=SamplingMask.from_dict(record.sampling_mask.to_dict()),
        )
        for record in rollout.records
    ]
    expect_equal(rollout)


def test_logits_may_be_wider_than_the_vocabulary() -> None:
    rollout = Rollout(np.random.default_rng(7), [SamplingParams(**PENALTIES)] * 2, SIZE, 6)
    rollout.logits = torch.nn.functional.pad(rollout.logits, (0, 7), value=99.0).requires_grad_()
    found = replay(rollout.logits, rollout.records, tokenizer=tokenizer(SIZE))
    np.testing.assert_array_equal(found.detach().numpy(), rollout.logprobs)
    found.sum().backward()
    assert rollout.logits.grad is not None
    assert not rollout.logits.grad[:, SIZE:].any()


def test_the_parameters_that_end_a_request_play_no_part() -> None:
    params = SamplingParams(**PENALTIES, top_k=9, max_tokens=6, stop=["ab"], n=1, logprobs=2)
    rollout = Rollout(np.random.default_rng(9), [params], SIZE, 20, draw_logits=normal_logits)
    rollout.records = [replace(record, params=params.replace(max_tokens=1)) for record in rollout.records]
    expect_equal(rollout)


def test_with_other_logits_the_drawn_tokens_stay_finite() -> None:
    random = np.random.default_rng(10)
    for _ in range(times(20)):
        every = [random_params(random, SIZE) for _ in range(3)]
        rollout = Rollout(random, every, SIZE, 5, draw_logits=normal_logits)
        if not len(rollout):
            continue
        noise = torch.from_numpy(random.normal(0, 3, rollout.logits.shape)).float()
        logits = (rollout.logits + noise).requires_grad_()
        logprobs = replay(logits, rollout.records, tokenizer=tokenizer(SIZE))
        logprobs.sum().backward()
        assert logprobs.isfinite().all()
        assert (logprobs <= 0).all()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()


def test_steps_with_drafts_are_replayed_token_by_token() -> None:
    random, params = np.random.default_rng(12), SamplingParams(**PENALTIES, top_k=9, seed=4, max_tokens=9)
    logits = normal_logits(random, 9, SIZE)
    plain = Scheduler(SIZE, limits=RequestLimits.none())
    plain.add(params, [1, 2], request_id="a")
    tokens = [int(plain.step(logits[i : i + 1]).token_ids[0]) for i in range(9)]
    scheduler = Scheduler(SIZE, limits=RequestLimits.none())
    scheduler.add(params.replace(return_sampling_mask=-1), [1, 2], request_id="a")
    result = scheduler.step(logits, ["a"], [tokens[:-1]])
    assert result.sampling_mask is not None
    assert result.tokens(0) == tokens
    record = ReplayRecord(params, [1, 2], tokens, result.sampling_mask)
    np.testing.assert_array_equal(
        replay(torch.from_numpy(logits), record).numpy(), result.sampling_mask.logprobs
    )
