"""The logprobs of named tokens are those that each of them has alone."""

from __future__ import annotations

import numpy as np
import pytest

from engine_sampler.arithmetic import given_logprobs, row_logprobs


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("is_subset", [False, True])
def test_every_token_has_the_logprob_and_rank_that_it_has_alone(is_subset: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(100):
        columns = int(random.integers(1, 60))
        logits = random.integers(-3, 3, columns).astype(np.float32)  # with ties
        logits[random.random(columns) < 0.2] = -np.inf
        logits[random.integers(columns)] = 1
        size = 100 if is_subset else columns
        ids = np.sort(random.choice(size, columns, replace=False)) if is_subset else None
        named = random.permutation(size)[: random.integers(1, size + 1)]
        row = given_logprobs(logits, named, ids)
        expected = [row_logprobs(logits, token_id, 0, ids) for token_id in named.tolist()]
        assert row.ranks.tolist() == [entry.rank for entry in expected]
        assert row.logprobs.tobytes() == np.array([entry.logprobs[0] for entry in expected]).tobytes()
