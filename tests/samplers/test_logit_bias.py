import math
import pickle

import numpy as np
import pytest

from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.logit_bias import LogitBias
from engine_sampler.testing import apply_sampler


def biased(logits, bias):
    return apply_sampler(LogitBias(), logits, SamplingParams(logit_bias=bias))


def test_equals_a_sum_in_float64():
    random = np.random.default_rng(1)
    for _ in range(200):
        logits = random.normal(0, 5, 40).astype(np.float32)
        ids = random.permutation(40)[:10]
        bias = random.normal(0, 20, 10)
        expected = logits.astype(np.float64)
        expected[ids] += bias
        result = biased(logits, dict(zip(ids.tolist(), bias.tolist(), strict=True)))
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-5)


def test_a_finite_bias_never_removes_and_never_overflows():
    result = biased([1.0, -FLT_MAX, FLT_MAX], {0: -1e300, 1: -1e38, 2: 1e300})
    assert result.tolist() == [-FLT_MAX, -FLT_MAX, FLT_MAX]


def test_biases_of_minus_infinity_may_leave_no_token():
    assert biased([1.0, 2.0], {0: -math.inf, 1: -math.inf}).tolist() == [-np.inf, -np.inf]


def test_digits_and_integers_are_the_same_keys():
    by_text = SamplingParams(logit_bias={"7": 1, "3": -2.0})
    by_id = SamplingParams(logit_bias={3: -2, 7: 1.0})
    assert by_text == by_id
    assert hash(by_text) == hash(by_id)
    assert by_id.logit_bias == ((3, -2.0), (7, 1.0))


def test_the_normal_form_is_accepted():
    params = SamplingParams(logit_bias={3: -math.inf, 1: 0.5})
    assert pickle.loads(pickle.dumps(params)) == params
    assert params.replace(seed=1).logit_bias == params.logit_bias


def test_an_empty_mapping_is_neutral():
    assert not LogitBias().is_active(SamplingParams(logit_bias={}))


@pytest.mark.parametrize(
    "value",
    [
        {5: 1.0, "5": 2.0},
        {-1: 1.0},
        {1.5: 1.0},
        {True: 1.0},
        {"x": 1.0},
        {0: math.nan},
        {0: math.inf},
        {0: "1"},
        {0: True},
        {0: None},
        {0: 10**400},
        "01",
        7,
    ],
)
def test_other_values_are_refused(value):
    with pytest.raises(ParameterError, match=r"logit_bias=.* is not allowed: token ids, each once"):
        SamplingParams(logit_bias=value)


def test_an_id_outside_the_vocabulary_is_named_in_the_error():
    with pytest.raises(ParameterError, match="logit_bias names token id 3, allowed are 0 to 2"):
        biased([1.0, 2.0, 3.0], {3: 1.0})
