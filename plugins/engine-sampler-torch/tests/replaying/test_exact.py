"""With the logits of the rollout, a replay gives the logprobs of the rollout, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_sampler_torch import replay
from random_rollouts import Rollout, random_params

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
