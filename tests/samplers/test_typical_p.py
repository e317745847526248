import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.typical_p import TypicalP
from engine_sampler.testing import apply_sampler
from tests.reference import kept, order, softmax

from .truncation import MARGIN, assert_the_same_on_any_subset, batches

SETTINGS = [{"typical_p": p} for p in (0.0, 0.05, 0.2, 0.5, 0.9, 0.999)]
SCORE_MARGIN = 1e-4
"""How far, in bits, a score in float32 may be from float64's."""


def left(logits, **params):
    return kept(apply_sampler(TypicalP(), logits, params))


def scores(p):
    """The distance of each token's information content from the entropy, in bits."""
    bits = -np.log2(np.maximum(p, 1e-300))
    return np.abs(bits - (p * bits).sum())


def typical(row, share):
    """Of the tokens in order, those that must stay and those that may stay, by float64 scores."""
    p = softmax(row)
    score = scores(p)
    by_score = np.argsort(score)
    mass = np.concatenate([[0.0], p[by_score].cumsum()])
    up_to = mass[np.searchsorted(score[by_score], score + SCORE_MARGIN, side="right")] - p
    below = mass[np.searchsorted(score[by_score], score - SCORE_MARGIN, side="left")]
    return up_to < share - MARGIN, below < share + MARGIN


def test_keeps_the_typical_tokens_of_the_definition():
    tight = []
    for logits, params in batches(SETTINGS):
        result = apply_sampler(TypicalP(), logits, params)
        for row, given, kept_row in zip(logits, params, result, strict=True):
            ids = order(row)
            surely, perhaps = typical(row[ids], given["typical_p"])
            stays = kept_row[ids] > -np.inf
            assert stays.any()
            assert stays[surely].all()
            assert not stays[~perhaps].any()
            tight.append((surely == perhaps).all())
    assert np.mean(tight) > 0.6


def test_keeps_the_requested_probability_and_no_token_more():
    for logits, params in batches(SETTINGS):
        result = apply_sampler(TypicalP(), logits, params)
        for row, given, kept_row in zip(logits, params, result, strict=True):
            p = softmax(row)[kept_row > -np.inf]
            score = scores(softmax(row))[kept_row > -np.inf]
            last = p[score >= score.max() - SCORE_MARGIN].max()
            assert p.sum() >= given["typical_p"] - MARGIN
            assert len(p) == 1 or p.sum() - last < given["typical_p"] + MARGIN


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(TypicalP(), [*SETTINGS, {"typical_p": 0.3, "min_keep": 7}])


@pytest.mark.parametrize("size", [6, 2000])
def test_equally_typical_tokens_go_to_the_lower_id(size):
    assert left(np.zeros(size), typical_p=0.5) == set(range(size // 2))


def test_equal_scores_on_both_sides_of_the_entropy_favour_the_likelier_token():
    # If tokens of 2^-1 and of 2^-3 have equal total weight, the expected information is in the middle.
    row = np.log(2.0) * np.array([-3.0, -1.0, -3.0, -3.0, -3.0])
    assert left(row, typical_p=0.4) == {1}
    assert left(row, typical_p=0.6) == {1, 0}


@pytest.mark.parametrize("width", [50, 3000])
@pytest.mark.parametrize("min_keep", [1, 2, 20, 49])
def test_min_keep_keeps_the_most_typical_tokens(width, min_keep):
    row = np.full(width, -np.inf, np.float32)
    row[:50] = np.random.default_rng(3).normal(0, 5, 50)
    most_typical = np.argsort(scores(softmax(row[:50])))[:min_keep]
    assert left(row, typical_p=0.0, min_keep=min_keep) == set(most_typical.tolist())


def test_min_keep_beyond_the_row_keeps_all_remaining_tokens():
    row = np.full(3000, -np.inf, np.float32)
    row[[3, 70, 2999]] = 0.0, -40.0, -3e38
    assert left(row, typical_p=0.1, min_keep=10) == {3, 70, 2999}


def test_removed_tokens_do_not_count():
    row = np.array([1.0, 0.5, 0.0, -1.0])
    with_removed = np.array([-np.inf, 1.0, 0.5, -np.inf, 0.0, -1.0])
    columns = np.array([1, 2, 4, 5])
    for share in (0.1, 0.4, 0.8):
        expected = set(columns[sorted(left(row, typical_p=share))].tolist())
        assert left(with_removed, typical_p=share) == expected


def test_values_out_of_bounds_are_refused():
    with pytest.raises(ParameterError, match=r"typical_p=-0.1 is not allowed"):
        SamplingParams(typical_p=-0.1)
