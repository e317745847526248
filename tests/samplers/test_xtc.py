import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.xtc import Xtc
from engine_sampler.testing import apply_sampler
from tests.reference import kept, order, softmax

from .truncation import MARGIN, ONE_UNIT, assert_the_same_on_any_subset, batches

THRESHOLDS = (0.0, 1e-4, 0.02, 0.1, 0.3, 0.5)
SURE = [{"xtc_probability": 1.0, "xtc_threshold": t} for t in THRESHOLDS]


def left(logits, **params):
    return kept(apply_sampler(Xtc(), logits, {"xtc_probability": 1.0, **params}))


def test_drops_all_top_choices_of_the_definition_except_the_last():
    exact = []
    for logits, params in batches(SURE):
        result = apply_sampler(Xtc(), logits, params)
        for row, given, kept_row in zip(logits, params, result, strict=True):
            ids = order(row)
            p = softmax(row[ids])
            room = given["xtc_threshold"] * MARGIN + p[0] * ONE_UNIT
            limits = given["xtc_threshold"] + room, given["xtc_threshold"] - room
            fewest, most = (max(0, int((p >= limit).sum()) - 1) for limit in limits)
            dropped = len(ids) - len(kept(kept_row))
            assert fewest <= dropped <= most
            assert kept(kept_row) == set(ids[dropped:].tolist())
            exact.append(fewest == most)
    assert np.mean(exact) > 0.95


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    coins = [{**given, "xtc_probability": 0.5} for given in SURE]
    assert_the_same_on_any_subset(Xtc(), [*coins, {**SURE[0], "min_keep": 4}])


def test_of_equal_top_choices_the_last_id_stays():
    assert left([0.0, 2.0, 2.0, 2.0, 0.0]) == {0, 3, 4}


def test_one_top_choice_alone_stays():
    assert left([5.0, 1.0, 1.0]) == {0, 1, 2}


def test_one_half_is_the_greatest_threshold_with_an_effect():
    assert left([1.0, 1.0], xtc_threshold=0.5) == {1}
    assert left([1.0, 1.0, -3.0], xtc_threshold=0.5) == {0, 1, 2}


def test_a_threshold_of_zero_never_keeps_a_removed_token():
    assert left([1.0, -np.inf, 0.0, -90.0, -np.inf], xtc_threshold=0.0) == {3}


@pytest.mark.parametrize(("min_keep", "expected"), [(0, {2, 3}), (2, {2, 3}), (3, {0, 1, 2, 3})])
def test_nothing_is_dropped_if_fewer_than_min_keep_would_stay(min_keep, expected):
    assert left([1.0, 1.0, 1.0, -2.0, -np.inf], min_keep=min_keep) == expected


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.97])
def test_the_coin_shows_heads_with_the_given_probability(probability):
    requests = 5000
    params = [{"xtc_probability": probability, "seed": seed} for seed in range(requests)]
    result = apply_sampler(Xtc(), np.zeros((requests, 2)), params)
    heads = (result[:, 0] == -np.inf).mean()
    deviation = np.sqrt(probability * (1 - probability) / requests)
    assert abs(heads - probability) < 4 * deviation


def test_one_seed_tosses_a_new_coin_at_every_position():
    steps = 1500
    params = [{"xtc_probability": 0.5, "seed": 11}] * steps
    outputs = [[0] * length for length in range(steps)]
    result = apply_sampler(Xtc(), np.zeros((steps, 2)), params, outputs=outputs)
    heads = result[:, 0] == -np.inf
    assert abs(heads.mean() - 0.5) < 4 * 0.5 / np.sqrt(steps)
    assert abs((heads[1:] == heads[:-1]).mean() - 0.5) < 4 * 0.5 / np.sqrt(steps)


def test_the_same_seed_tosses_the_same_coin():
    params = [{"xtc_probability": 0.5, "seed": seed} for seed in range(50)]
    first, again = (apply_sampler(Xtc(), np.zeros((50, 2)), params) for _ in range(2))
    assert (first == again).all()
    assert 0 < (first[:, 0] == -np.inf).sum() < 50


def test_is_off_without_probability_and_above_one_half():
    assert not Xtc().is_active(SamplingParams(xtc_threshold=0.1))
    assert not Xtc().is_active(SamplingParams(xtc_probability=0.5, xtc_threshold=0.51))
    assert Xtc().is_active(SamplingParams(xtc_probability=0.5, xtc_threshold=0.5))


def test_values_out_of_bounds_are_refused():
    with pytest.raises(ParameterError, match=r"xtc_probability=2 is not allowed: a finite number"):
        SamplingParams(xtc_probability=2)
    with pytest.raises(ParameterError, match=r"xtc_threshold=-1 is not allowed: a finite number"):
        SamplingParams(xtc_threshold=-1)
