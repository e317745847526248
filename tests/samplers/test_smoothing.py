import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.smoothing import Smoothing
from engine_sampler.testing import SamplerContract, apply_sampler


@pytest.mark.quick_share(4)
class TestLawsOfSteepCurves(SamplerContract):
    sampler = Smoothing()
    params = ({"smoothing_factor": 3.0, "smoothing_curve": 7.5},)
    removes = False
    apply_at_neutral = False


def smoothed(logits, **params):
    return apply_sampler(Smoothing(), logits, SamplingParams(**params))


@pytest.mark.parametrize("curve", [1.0, 2.0, 3.0, 6.0])
@pytest.mark.parametrize("factor", [0.01, 0.3, 4.0])
def test_equals_the_definition(factor, curve):
    logits = np.random.default_rng(1).normal(0, 5, (20, 300)).astype(np.float32)
    d = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    quadratic, cubic = (3 - curve) / 2, (curve - 1) / 2
    expected = logits.max(axis=1, keepdims=True) - quadratic * factor * d**2 + cubic * factor * d**3
    result = smoothed(logits, smoothing_factor=factor, smoothing_curve=curve)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


def test_the_result_is_rounded_once():
    logits = np.random.default_rng(2).normal(0, 5, 1000).astype(np.float32)
    d = logits.astype(np.float64) - np.float64(logits.max())
    expected = (np.float64(logits.max()) - 0.3 * (d * d)).astype(np.float32)
    assert (smoothed(logits, smoothing_factor=0.3) == expected).all()


def test_up_to_a_curve_of_three_no_token_overtakes_the_best():
    random = np.random.default_rng(3)
    for curve in (1.0, 1.7, 3.0):
        logits = random.normal(0, 1e-3, (50, 40)).astype(np.float32)
        result = smoothed(logits, smoothing_factor=0.4, smoothing_curve=curve)
        assert (result.max(axis=1) == logits.max(axis=1)).all()


def test_above_three_tokens_near_the_best_overtake_it():
    assert smoothed([1.0, 0.9], smoothing_factor=1.0, smoothing_curve=9.0).argmax() == 1


def test_values_out_of_bounds_are_refused():
    with pytest.raises(
        ParameterError, match=r"smoothing_factor=-1 is not allowed: a finite number of at least 0"
    ):
        SamplingParams(smoothing_factor=-1)
    with pytest.raises(
        ParameterError, match=r"smoothing_curve=0.5 is not allowed: a finite number of at least 1"
    ):
        SamplingParams(smoothing_curve=0.5)
