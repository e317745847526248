import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.min_k import MinK
from engine_sampler.testing import apply_sampler
from tests.reference import kept, order

from .truncation import assert_the_same_on_any_subset, batches

SETTINGS = [{"min_k": True, "min_k_tau": tau} for tau in (0.0, 3.0, 40.0, 1e300)]


def left(logits, **params):
    return kept(apply_sampler(MinK(), logits, {"min_k": True, **params}))


def count(row, tau):
    """The definition, with the whole row sorted and the drops relative to the range."""
    ordered = np.sort(row[row > -np.inf].astype(np.float64))[::-1]
    span = ordered[0] - ordered[-1] + 1e-8
    decay = -np.diff(ordered) / span / np.arange(1, len(ordered))
    cliff = int(decay.argmax()) + 1 if len(decay) else 1
    return max(cliff, int(min(np.floor(max(0.0, tau) / span), len(ordered))))


def test_keeps_the_tokens_before_the_steepest_drop():
    for logits, params in batches(SETTINGS):
        result = apply_sampler(MinK(), logits, params)
        for row, given, remaining in zip(logits, params, result, strict=True):
            assert kept(remaining) == set(order(row)[: count(row, given["min_k_tau"])].tolist())


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(MinK(), SETTINGS)


@pytest.mark.parametrize(
    ("size", "place"), [(100, 1), (100, 65), *((40_000, place) for place in (1, 63, 64, 65, 257, 1025, 5000))]
)
def test_a_drop_far_down_is_found(size, place):
    """The logits fall by 1e-6 from token to token, and once by as much as makes it the steepest drop."""
    row = -1e-6 * np.arange(size)
    row[place:] -= 4e-6 * place
    shuffled = np.random.default_rng(place).permutation(size)
    logits = np.empty(size, np.float32)
    logits[shuffled] = row
    assert left(logits, min_k_tau=0.0) == set(shuffled[: count(logits, 0.0)].tolist())


def test_the_first_of_equal_drops_counts():
    assert left([3.0, 2.0, 0.0], min_k_tau=0.0) == {0}


def test_of_equal_logits_the_floor_decides_and_the_lower_ids_stay():
    assert left([2.0] * 5, min_k_tau=0.0) == {0}
    assert left([2.0] * 5) == set(range(5))
    assert left([2.0, *[1.0] * 9], min_k_tau=3.5) == {0, 1, 2}


def test_the_place_of_the_drop_does_not_depend_on_the_scale_but_the_floor_does():
    row = np.array([5.0, 4.5, 1.0, 0.5])
    assert left(row) == left(row * 4) == {0, 1}
    assert left(row / 4) == {0, 1}
    assert left(row / 8) == set(range(4))


def test_removed_tokens_are_not_part_of_the_range():
    assert left([1.0, 0.5, -np.inf], min_k_tau=1.1) == {0, 1}


def test_min_keep_has_no_effect():
    assert left([5.0, 0.0, 0.0], min_keep=3) == {0}


def test_values_out_of_bounds_are_refused():
    with pytest.raises(ParameterError, match=r"min_k_tau=-1 is not allowed: a finite number of at least 0"):
        SamplingParams(min_k_tau=-1)
