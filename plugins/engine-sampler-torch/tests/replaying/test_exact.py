"""With the logits of the rollout, a replay gives the logprobs of the rollout, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import replay
from random_rollouts import Rollout, random_params

from engine_sampler import SamplingParams
from engine_sampler.testing import times
from tests.random_chains import tokenizer

SIZES = (1, 2, 3, 31, 33, 64, 65, 300, 1025)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def difference(rollout: Rollout, vocab_size: int, **keywords: int) -> np.ndarray:
    """bool [rows], where a replay of equal logits has other bits than the rollout."""
    found = replay(rollout.logits, rollout.records, tokenizer=tokenizer(vocab_size), **keywords).numpy()
    return found.view(np.int32) != rollout.logprobs.view(np.int32)


@pytest.mark.parametrize("part", range(3))
def test_random_chains_are_replayed_bit_for_bit(part: int) -> None:
    random = np.random.default_rng([part, 45])
    for number in range(times(8)):
        size = SIZES[number % len(SIZES)]
        every = [random_params(random, size) for _ in range(4)]
        rollout = Rollout(random, every, size, 6, dtype=DTYPES[number % 3])
        wrong = difference(rollout, size)
        assert not wrong.any(), f"{np.flatnonzero(wrong)}: {[r.params for r in rollout.records]}"


@pytest.mark.parametrize(
    "settings", [{}, {"top_k": 20}, {"dynatemp_range": 0.3, "order": "vllm", "top_p": 0.9}]
)
def test_chunks_change_no_bit(settings: dict[str, Any]) -> None:
    params = SamplingParams(temperature=0.8, repetition_penalty=1.2, **settings)
    rollout = Rollout(np.random.default_rng(1), [params] * 2, 300, 5)
    results = []
    for chunk_size in (1, 901, 1 << 22):
        logits = rollout.logits.clone().requires_grad_()
        found = replay(logits, rollout.records, chunk_size=chunk_size)
        found.sum().backward()
        results.append((found.detach(), logits.grad))
    for found, grad in results[1:]:
        assert torch.equal(found, results[0][0])
        assert torch.equal(grad, results[0][1])
