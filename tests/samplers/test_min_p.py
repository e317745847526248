import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.min_p import MinP
from engine_sampler.testing import apply_sampler
from tests.reference import kept

from .truncation import MARGIN, assert_leaves_a_prefix, assert_the_same_on_any_subset

SHARES = (1e-6, 1e-3, 0.05, 0.3, 1.0)
SETTINGS = [{"min_p": share, "min_keep": n} for share in SHARES for n in (0, 1, 9)]


def left(logits, **params):
    return kept(apply_sampler(MinP(), logits, params))


def above_the_share_of_the_best(probabilities, params):
    floor = min(max(1, params["min_keep"]), len(probabilities))
    thresholds = (probabilities[0] * params["min_p"] * factor for factor in (1 + MARGIN, 1 - MARGIN))
    least, most = (max(floor, int((probabilities >= x).sum())) for x in thresholds)
    return least, most


def test_keeps_tokens_that_reach_the_share_of_the_best():
    assert_leaves_a_prefix(MinP(), SETTINGS, above_the_share_of_the_best, exact=0.9)


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(MinP(), SETTINGS)


def test_a_ratio_exactly_at_the_share_stays():
    assert left(np.log([0.5, 0.25, 0.125, 0.125]), min_p=0.25) == {0, 1, 2, 3}
    assert left(np.log([0.5, 0.25, 0.125, 0.125]), min_p=0.2501) == {0, 1}


def test_one_keeps_the_best_token_and_those_that_tie_with_it():
    assert left([2.0, 2.0, 1.9999, -np.inf], min_p=1.0) == {0, 1}


@pytest.mark.parametrize("width", [5, 4000])
def test_min_keep_breaks_ties_by_the_lower_id(width):
    row = np.full(width, -9.0)
    row[width - 1] = 0.0
    assert left(row, min_p=0.5, min_keep=3) == {width - 1, 0, 1}


def test_values_out_of_bounds_are_refused():
    with pytest.raises(ParameterError, match=r"min_p=1.01 is not allowed: a finite number of at least 0"):
        SamplingParams(min_p=1.01)
