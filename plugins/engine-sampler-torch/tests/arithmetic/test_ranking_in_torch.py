"""Order, logprobs and ranks in torch equal the core's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_sampler_torch import arithmetic

from engine_sampler import arithmetic as reference
from engine_sampler.testing import KINDS

RANDOM = np.random.default_rng(5)
ROWS = np.stack([kind(RANDOM, 1500) for kind in KINDS.values()]).astype(np.float32)


def test_keys_are_unique_and_order_logits_like_the_core() -> None:
    np.testing.assert_array_equal(arithmetic.sort_keys(torch.from_numpy(ROWS)), reference.sort_keys(ROWS))
    np.testing.assert_array_equal(arithmetic.descending(torch.from_numpy(ROWS)), reference.descending(ROWS))


@pytest.mark.parametrize("k", [1, 64, 700, 900, 1500])
def test_the_first_columns_are_those_of_the_whole_order(k: int) -> None:
    found = arithmetic.first_columns(torch.from_numpy(ROWS), k)
    np.testing.assert_array_equal(found, reference.descending(ROWS)[:, :k])


@pytest.mark.parametrize("top_n", [0, 5, 1500, 4000, -1])
def test_logprobs_and_ranks_equal_those_of_the_core(top_n: int) -> None:
    chosen = RANDOM.integers(0, 1500, len(ROWS))
    token_ids, logprobs, ranks = arithmetic.row_logprobs(
        torch.from_numpy(ROWS), torch.from_numpy(chosen), top_n
    )
    for i, row in enumerate(ROWS):
        expected = reference.row_logprobs(row, int(chosen[i]), top_n)
        np.testing.assert_array_equal(token_ids[i], expected.token_ids)
        np.testing.assert_array_equal(logprobs[i], expected.logprobs)
        assert int(ranks[i]) == expected.rank


def test_logprobs_of_a_subset_of_the_tokens_name_their_ids() -> None:
    ids = np.sort(RANDOM.permuted(np.tile(np.arange(5000), (len(ROWS), 1)), axis=1)[:, :1500], axis=1)
    chosen = np.where(RANDOM.random(len(ROWS)) < 0.5, ids[:, 700], RANDOM.integers(0, 5000, len(ROWS)))
    arrays = (torch.from_numpy(array) for array in (ROWS, chosen))
    token_ids, logprobs, ranks = arithmetic.row_logprobs(*arrays, 9, torch.from_numpy(ids))
    for i, row in enumerate(ROWS):
        expected = reference.row_logprobs(row, int(chosen[i]), 9, ids[i])
        np.testing.assert_array_equal(token_ids[i], expected.token_ids)
        np.testing.assert_array_equal(logprobs[i], expected.logprobs)
        assert int(ranks[i]) == expected.rank


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_without_a_finite_greatest_logit_has_no_total(value: float) -> None:
    rows = np.stack([np.full(9, -np.inf), ROWS[0, :9]]).astype(np.float32)
    rows[0, 3] = value
    found = arithmetic.log_total(torch.from_numpy(rows)).numpy()
    assert np.isnan(found[0])
    assert found[1] == reference.log_total(rows[1])
