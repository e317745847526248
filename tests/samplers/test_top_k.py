import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.top_k import TopK
from engine_sampler.testing import apply_sampler
from tests.reference import kept, order

from .truncation import assert_leaves_a_prefix, assert_the_same_on_any_subset

SETTINGS = [{"top_k": k} for k in (1, 2, 40, 128, 1000, 4999, 2**31 - 1)]


def left(logits, **params):
    return kept(apply_sampler(TopK(), logits, params))


def test_keeps_exactly_k_tokens_in_order():
    def exactly(probabilities, params):
        k = min(params["top_k"], len(probabilities))
        return k, k

    assert_leaves_a_prefix(TopK(), SETTINGS, exactly, exact=1.0)


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(TopK(), SETTINGS)


@pytest.mark.parametrize("k", [1, 40, 255, 256, 257, 1000, 2000, 4096, 9000, 31_999, 32_000])
def test_wide_rows_with_many_ties_keep_the_lowest_ids(k):
    row = np.random.default_rng(k).integers(0, 50, 32_000).astype(np.float32)
    assert left(row, top_k=k) == set(order(row)[:k].tolist())


def test_zeros_of_either_sign_tie():
    row = np.tile([-0.0, 0.0], 2000).astype(np.float32)
    assert left(row, top_k=5) == {0, 1, 2, 3, 4}


def test_min_keep_has_no_effect():
    assert left([3.0, 2.0, 1.0], top_k=1, min_keep=3) == {0}


def test_zero_and_minus_one_are_off():
    assert not TopK().is_active(SamplingParams(top_k=0))
    assert not TopK().is_active(SamplingParams(top_k=-1))
    assert TopK().is_active(SamplingParams(top_k=1))


def test_values_out_of_bounds_are_refused():
    with pytest.raises(ParameterError, match=r"top_k=-2 is not allowed: an integer of at least -1"):
        SamplingParams(top_k=-2)
    with pytest.raises(ParameterError, match=r"top_k=1.5 is not allowed: an integer"):
        SamplingParams(top_k=1.5)
