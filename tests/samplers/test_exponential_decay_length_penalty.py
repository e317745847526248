import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.exponential_decay_length_penalty import ExponentialDecayLengthPenalty
from engine_sampler.testing import apply_sampler

ROW = np.array([1.5, -2.0, 0.0, 3.0, -np.inf])


def run(start, factor, length):
    params = {"exponential_decay_length_penalty": (start, factor)}
    history = {"prompts": [[1, 1, 1]], "outputs": [[1] * length], "eos_token_ids": (0, 1, 2, 4)}
    return apply_sampler(ExponentialDecayLengthPenalty(), ROW, params, **history)


@pytest.mark.parametrize("length", [0, 4, 5, 9, 40])
@pytest.mark.parametrize("factor", [1.01, 1.5, 0.7])
def test_eos_rises_as_in_the_formula(factor, length):
    expected = ROW.copy()
    growth = factor ** max(0, length - 4) - 1.0
    expected[[0, 1]] += np.abs(ROW[[0, 1]]) * growth
    np.testing.assert_allclose(run(4, factor, length), expected, rtol=1e-6)


def test_a_logit_stays_finite_however_fast_it_grows():
    row = run(0, 1e30, 60)
    assert row.tolist() == [np.float32(3.4028235e38)] * 2 + [0.0, 3.0, -np.inf]


@pytest.mark.parametrize("wrong", [(1,), (-1, 1.5), (1, 0), (1.5, 2.0), (1, float("inf")), 5, (True, 1.5)])
def test_other_values_are_refused(wrong):
    with pytest.raises(ParameterError, match=r"exponential_decay_length_penalty=.*: \[start, factor\]"):
        SamplingParams(exponential_decay_length_penalty=wrong)


@pytest.mark.filterwarnings("error")
def test_a_factor_beyond_float32_is_refused_without_a_warning() -> None:
    with pytest.raises(ParameterError, match="exponential_decay_length_penalty"):
        SamplingParams(exponential_decay_length_penalty=[1, 1e308])
