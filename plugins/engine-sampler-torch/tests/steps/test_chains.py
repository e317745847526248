"""Whole random chains in torch equal the NumPy backend: tokens, notes, survivors and their logits."""

from __future__ import annotations

import numpy as np
import pytest
from torch_chains import HOST_ONLY, NEG_INF, run, whole_rows

from engine_sampler import SamplingParams
from engine_sampler.testing import times
from tests.random_chains import random_logits, random_rows, random_settings, run_fused

ROWS = 16
SIZES = (1, 2, 3, 17, 64, 65, 300, 1024, 1500)
CHAINS = 1250


@pytest.mark.parametrize("part", range(5))
def test_random_chains_equal_the_reference(part: int) -> None:
    random = np.random.default_rng([16, part])
    for number in range(times(CHAINS // 5)):
        size = SIZES[number % len(SIZES)]
        params = SamplingParams(**random_settings(random, size, without=sorted(HOST_ONLY)))
        chain, rows = random_rows(random, params, ROWS, size)
        logits = random_logits(random, ROWS, size)
        expected = run_fused(chain, rows, logits)
        block, token_ids, notes = run(chain, rows, logits)
        np.testing.assert_array_equal(token_ids, expected.token_ids, err_msg=str(chain))
        np.testing.assert_array_equal(notes, expected.notes, err_msg=str(chain))
        processed = whole_rows(block)
        for i, (ids, left) in expected.survivors.items():
            np.testing.assert_array_equal(np.flatnonzero(processed[i] > NEG_INF), ids, err_msg=str(chain))
            np.testing.assert_array_equal(processed[i, ids].view(np.int32), left.view(np.int32))


def test_wide_vocabularies_equal_the_reference() -> None:
    random = np.random.default_rng(151_936)
    for size in (32_000, 151_936):
        for _ in range(times(6)):
            params = SamplingParams(**random_settings(random, size, without=[*HOST_ONLY, "grammar_bias"]))
            chain, rows = random_rows(random, params, 2, size)
            logits = random_logits(random, 2, size)
            expected = run_fused(chain, rows, logits)
            _, token_ids, notes = run(chain, rows, logits)
            np.testing.assert_array_equal(token_ids, expected.token_ids, err_msg=str(chain))
            np.testing.assert_array_equal(notes, expected.notes, err_msg=str(chain))
