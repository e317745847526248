import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.top_a import TopA
from engine_sampler.testing import apply_sampler
from tests.reference import kept

from .truncation import assert_leaves_a_prefix, assert_the_same_on_any_subset, at_threshold

SETTINGS = [{"top_a": a} for a in (1e-4, 0.05, 0.3, 1.0, 5.0, 1e300)]


def left(logits, **params):
    return kept(apply_sampler(TopA(), logits, params))


def test_keeps_tokens_that_reach_a_times_the_square_of_the_best_probability():
    assert_leaves_a_prefix(
        TopA(), SETTINGS, lambda p, params: at_threshold(p, params["top_a"] * p[0] ** 2), exact=0.99
    )


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(TopA(), SETTINGS)


def test_a_probability_exactly_at_the_threshold_stays():
    row = np.log([0.5, 0.25, 0.25])
    assert left(row, top_a=1.0) == {0, 1, 2}
    assert left(row, top_a=1.001) == {0}


def test_beyond_the_best_probability_only_the_first_token_stays():
    assert left([1.0, 1.0, 0.0], top_a=2.0) == {0, 1}
    assert left([1.0, 1.0, 0.0], top_a=3.0) == {0}


def test_min_keep_has_no_effect():
    assert left([5.0, 0.0, 0.0], top_a=0.9, min_keep=3) == {0}


def test_values_out_of_bounds_are_refused():
    with pytest.raises(ParameterError, match=r"top_a=-1 is not allowed: a finite number of at least 0"):
        SamplingParams(top_a=-1)
