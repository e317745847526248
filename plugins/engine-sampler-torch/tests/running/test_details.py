"""Sampling masks, and logprobs of named tokens and of prompts: the same on a device as on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from counting_device import CountingDevice, OnDevice

from engine_sampler import RequestLimits, SamplingParams, Scheduler, StepResult
from tests.engines import TOKENIZER, VOCAB
from tests.random_chains import random_history, random_logits, random_settings, tokenizer

pytestmark = pytest.mark.usefixtures("device")

SIZE = 70


def schedulers(**options: Any) -> list[Scheduler]:
    return [
        Scheduler(backend=backend, limits=RequestLimits.none(), **options) for backend in ("torch", "numpy")
    ]


def details_of(result: StepResult) -> Any:
    mask, named = result.sampling_mask, result.given_logprobs
    return (
        mask and [mask.token_ids.tolist(), mask.offsets.tolist(), mask.is_inverted.tolist()],
        mask and [mask.is_capped.tolist(), mask.logprobs.tobytes()],
        named
        and {
            mode: (t.token_ids.tolist(), t.logprobs.tobytes(), t.ranks.tolist(), t.starts.tolist())
            for mode, t in named.by_mode.items()
        },
    )


def expect_same_step(there: Scheduler, host: Scheduler, logits: np.ndarray, drafts: Any = None) -> StepResult:
    found = there.step(OnDevice(torch.as_tensor(logits).clone()), None, drafts)
    right = host.step(logits, None, drafts)
    assert found.token_ids.tolist() == right.token_ids.tolist()
    assert details_of(found) == details_of(right)
    return right


def test_of_random_chains() -> None:
    random = np.random.default_rng(7)
    there, host = schedulers(vocab_size=SIZE, tokenizer=tokenizer(SIZE))
    wanted: list[dict[str, Any]] = [
        {"return_sampling_mask": 12},
        {"return_sampling_mask": True, "logprobs": 1, "logprobs_mode": "processed"},
        {"logprob_token_ids": [5, 6, 69], "logprobs_mode": ("raw", "penalized", "processed")},
        {"logprobs": 2},
    ]
    for _ in range(25):
        for number, more in enumerate(wanted):
            settings = random_settings(random, SIZE, without=["logits_processors", "grammar_bias"])
            params = SamplingParams(**settings, **more, seed=number)
            prompt, output = (random_history(random, SIZE) for _ in range(2))
            for scheduler in (there, host):
                scheduler.add(params, prompt, output_token_ids=output)
        for _ in range(2):
            if ids := host.request_ids:
                expect_same_step(there, host, random_logits(random, len(ids), SIZE))
        for scheduler in (there, host):
            for request_id in scheduler.request_ids:
                scheduler.remove(request_id)


def test_of_many_survivors_and_of_drafts() -> None:
    random = np.random.default_rng(8)
    there, host = schedulers(vocab_size=3000)
    for more in ({}, {"top_p": 0.99}, {"top_k": 2000}, {"min_p": 0.2}, {"bad_words": [[3]]}):
        for scheduler in (there, host):
            scheduler.add(SamplingParams(**more, seed=1, return_sampling_mask=-1, logprob_token_ids=[1, 2]))
    logits = random.normal(0, 1.5, (5, 3000)).astype(np.float32)
    first = expect_same_step(there, host, logits).token_ids.tolist()
    drafts = [[token, 4] for token in first]
    expect_same_step(there, host, np.repeat(logits, 3, axis=0), drafts)


def test_a_prompt_is_scored_there(device: CountingDevice) -> None:
    rows = np.random.default_rng(9).normal(0, 3, (6, VOCAB)).astype(np.float32)
    params = SamplingParams(prompt_logprobs=3, prompt_logprob_token_ids=[[1, 2], [], [7]])
    scores: list[Any] = []
    for scheduler in schedulers(vocab_size=VOCAB, tokenizer=TOKENIZER):
        request_id = scheduler.add(params, [1, 2, 3, 4, 5, 6, 7])
        is_there = scheduler.backend is not None and scheduler.backend.name == "torch"
        scores.append(
            scheduler.score_prompt(request_id, OnDevice(torch.as_tensor(rows)) if is_there else rows)
        )
    there, host = scores
    for name in ("entry_token_ids", "entry_logprobs", "ranks"):
        assert getattr(there.logprobs, name).tobytes() == getattr(host.logprobs, name).tobytes()
    for name in ("token_ids", "logprobs", "ranks", "starts"):
        assert getattr(there.given, name).tobytes() == getattr(host.given, name).tobytes()
