import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.top_p import TopP
from engine_sampler.testing import apply_sampler
from tests.reference import kept

from .truncation import MARGIN, assert_leaves_a_prefix, assert_the_same_on_any_subset

SHARES = (0.0, 0.01, 0.3, 0.5, 0.9, 0.999)
SETTINGS = [{"top_p": p, "top_p_cut": cut} for p in SHARES for cut in ("reach", "exceed", "below")]
HALF = {"top_p": 0.5}


def left(logits, **params):
    return kept(apply_sampler(TopP(), logits, params))


def nucleus(probabilities, params):
    """The shortest prefix that holds p, without its last token if the crossing token is dropped."""
    inside = [
        int((probabilities.cumsum() < params["top_p"] + shift).sum()) + (params["top_p_cut"] != "below")
        for shift in (-MARGIN, MARGIN)
    ]
    most = len(probabilities)
    least, last = (min(max(1, params.get("min_keep", 0), n), most) for n in inside)
    return least, last


def test_keeps_the_nucleus_of_the_definition():
    assert_leaves_a_prefix(TopP(), SETTINGS, nucleus, exact=0.9)


def test_keeps_at_least_min_keep_tokens():
    settings = [{**given, "min_keep": 5} for given in SETTINGS]
    assert_leaves_a_prefix(TopP(), settings, nucleus, exact=0.9)


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(TopP(), SETTINGS)


@pytest.mark.parametrize("size", [2, 4, 8, 64, 1024, 4096])
def test_half_of_equal_tokens_is_cut_exactly(size):
    row = np.full(size, -1.25)
    assert left(row, **HALF) == set(range(size // 2))
    assert left(row, **HALF, top_p_cut="exceed") == set(range(size // 2 + 1))
    assert left(row, **HALF, top_p_cut="below") == set(range(size // 2))


def test_below_drops_the_crossing_token_but_never_the_first():
    row = np.log([0.6, 0.3, 0.1])
    assert left(row, top_p=0.7, top_p_cut="below") == {0}
    assert left(row, top_p=0.2, top_p_cut="below") == {0}
    assert left(row, top_p=0.7) == {0, 1}


@pytest.mark.parametrize("cut", ["exceed", "below"])
def test_a_share_of_one_keeps_tokens_with_weight_zero(cut):
    row = np.array([0.0, -50.0, -300.0])
    assert left(row, top_p=1.0, top_p_cut=cut) == {0, 1, 2}


def test_is_off_at_one_whatever_the_cut():
    assert not TopP().is_active(SamplingParams(top_p=1, top_p_cut="exceed"))
    assert TopP().is_active(SamplingParams(top_p=0.999))


def test_values_out_of_bounds_are_refused():
    allowed = "a finite number of at least 0 and at most 1"
    with pytest.raises(ParameterError, match=f"top_p=1.5 is not allowed: {allowed}"):
        SamplingParams(top_p=1.5)
    with pytest.raises(
        ParameterError, match="top_p_cut='at' is not allowed: one of 'reach', 'exceed', 'below'"
    ):
        SamplingParams(top_p_cut="at")
