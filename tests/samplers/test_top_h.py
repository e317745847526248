import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.top_h import TopH
from engine_sampler.testing import apply_sampler
from tests.reference import kept

from .truncation import MARGIN, ONE_UNIT, assert_leaves_a_prefix, assert_the_same_on_any_subset

SETTINGS = [{"top_h": alpha} for alpha in (0.001, 0.1, 0.4, 0.7, 0.99)]


def left(logits, **params):
    return kept(apply_sampler(TopH(), logits, params))


def share_of_entropy(probabilities, params):
    """The longest prefix with at most the share top_h of the entropy, at least one token."""
    terms = -probabilities * np.log2(np.maximum(probabilities, 1e-300))
    entropy = max(terms.sum(), 1e-300)
    # Rounding weights to integers shifts each term by up to half a unit times its at most 31 bits.
    room = MARGIN + len(terms) * 16 * ONE_UNIT * probabilities[0] / entropy
    held = terms.cumsum() / entropy
    least, most = (max(1, int((held <= params["top_h"] + shift).sum())) for shift in (-room, room))
    return least, most


def test_keeps_the_requested_share_of_the_entropy():
    assert_leaves_a_prefix(TopH(), SETTINGS, share_of_entropy, exact=0.85)


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(TopH(), SETTINGS)


@pytest.mark.parametrize("size", [4, 256, 4096])
def test_of_equal_tokens_half_the_entropy_is_half_the_tokens(size):
    assert left(np.ones(size), top_h=0.5) == set(range(size // 2))


@pytest.mark.parametrize("size", [1, 5, 300, 3000])
def test_a_share_of_one_keeps_all_tokens(size):
    row = np.random.default_rng(size).normal(0, 9, size)
    assert left(row, top_h=1.0) == set(range(size))


def test_the_whole_row_counts_and_not_its_top_hundred():
    assert left(np.zeros(1000), top_h=0.4) == set(range(400))


@pytest.mark.parametrize("width", [3, 5000])
@pytest.mark.parametrize("top_h", [0.1, 0.9, 1.0])
def test_a_row_without_entropy_keeps_its_best_token(width, top_h):
    row = np.zeros(width)
    row[1] = 30.0
    assert left(row, top_h=top_h) == {1}


def test_min_keep_has_no_effect():
    assert left([5.0, 0.0, 0.0], top_h=0.1, min_keep=3) == {0}


def test_values_out_of_bounds_are_refused():
    with pytest.raises(ParameterError, match=r"top_h=1.1 is not allowed: a finite number"):
        SamplingParams(top_h=1.1)
