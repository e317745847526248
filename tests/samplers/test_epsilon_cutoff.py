import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.epsilon_cutoff import EpsilonCutoff
from engine_sampler.testing import apply_sampler
from tests.reference import kept

from .truncation import assert_leaves_a_prefix, assert_the_same_on_any_subset, at_threshold

SETTINGS = [{"epsilon_cutoff": x} for x in (1e-7, 3e-4, 0.01, 0.3, 1.0)]


def left(logits, **params):
    return kept(apply_sampler(EpsilonCutoff(), logits, params))


def test_keeps_probabilities_of_at_least_epsilon():
    assert_leaves_a_prefix(
        EpsilonCutoff(),
        SETTINGS,
        lambda p, params: at_threshold(p, params["epsilon_cutoff"]),
        exact=0.99,
    )


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(EpsilonCutoff(), SETTINGS)


@pytest.mark.parametrize("size", [3, 10, 1000, 3000])
def test_equal_tokens_exactly_at_epsilon_stay(size):
    assert left(np.zeros(size), epsilon_cutoff=1 / size) == set(range(size))
    assert left(np.zeros(size), epsilon_cutoff=1.001 / size) == {0}


def test_any_epsilon_drops_tokens_with_weight_zero():
    row = [0.0, -1.0, -40.0]
    assert left(row, epsilon_cutoff=1e-30) == {0, 1}


def test_min_keep_has_no_effect():
    assert left([5.0, 0.0, 0.0], epsilon_cutoff=0.9, min_keep=3) == {0}


def test_values_out_of_bounds_are_refused():
    with pytest.raises(ParameterError, match=r"epsilon_cutoff=3 is not allowed: a finite number"):
        SamplingParams(epsilon_cutoff=3)
