from fractions import Fraction

import numpy as np
import pytest

from engine_sampler import process_logits
from engine_sampler.arithmetic import distances, weights
from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.p_less import PLess, collision_weight
from engine_sampler.testing import apply_sampler
from tests.reference import kept

from .truncation import (
    assert_leaves_a_prefix,
    assert_the_same_on_any_subset,
    at_threshold,
    rows_of_every_kind,
)

SETTINGS = [{"p_less": True}, {"p_less_norm": True}]


def left(logits, **params):
    return kept(apply_sampler(PLess(), logits, params))


def at_collision(probabilities, params):
    """p ≥ Σp², or for the norm form p ≥ (n·Σp² − 1)/(n − 1)."""
    n, threshold = len(probabilities), float((probabilities**2).sum())
    if params.get("p_less_norm"):
        threshold = (n * threshold - 1) / (n - 1) if n > 1 else 0.0
    return at_threshold(probabilities, max(threshold, 0.0))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_keeps_tokens_as_likely_as_a_collision(settings):
    assert_leaves_a_prefix(PLess(), [settings], at_collision, exact=0.75)


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(PLess(), SETTINGS)


@pytest.mark.parametrize("norm", [False, True])
def test_the_least_weight_is_that_of_the_definition_in_fractions(norm):
    for row in rows_of_every_kind(300):
        w = weights(distances(row[None]))[0].tolist()
        n = int((row > -np.inf).sum())
        shares = [Fraction(weight, sum(w)) for weight in w]
        threshold = sum(share * share for share in shares)
        if norm:
            threshold = (n * threshold - 1) / (n - 1) if n > 1 else Fraction(0)
        need = collision_weight(sum(w), sum(x * x for x in w), n if norm else None)
        assert all((share >= threshold) == (weight >= need) for share, weight in zip(shares, w, strict=True))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("size", [1, 2, 3, 1000, 4096])
def test_equal_tokens_are_exactly_at_the_threshold_and_stay(size, settings):
    assert left(np.full(size, 1.5), **settings) == set(range(size))
    assert left([1.5, *[-np.inf] * size], **settings) == {0}


def test_the_norm_form_keeps_more_and_counts_what_is_left():
    row = [1.0, 0.5, 0.0, -1.0]
    assert left(row, p_less=True) == {0}
    assert left(row, p_less_norm=True) == left(row, p_less=True, p_less_norm=True) == {0, 1, 2}
    assert left([*row, *[-np.inf] * 50], p_less_norm=True) == {0, 1, 2}
    assert left([*row, *[-9.0] * 50], p_less_norm=True) == {0}


@pytest.mark.parametrize(("order", "stay"), [("vllm", {0}), ("llama.cpp", {0, 1})])
def test_it_reads_the_probabilities_after_the_temperature_in_vllms_order(order, stay):
    params = SamplingParams(p_less=True, temperature=0.1, order=order)
    assert kept(process_logits(np.array([[1.0, 0.9, 0.0]], np.float32), params)[0]) == stay


def test_min_keep_has_no_effect():
    assert left([5.0, 0.0, 0.0], p_less=True, min_keep=3) == {0}


def test_values_other_than_true_and_false_are_refused():
    with pytest.raises(ParameterError, match=r"p_less=1 is not allowed: True or False"):
        SamplingParams(p_less=1)
