import numpy as np
import pytest

from engine_sampler.samplers.skew import Skew
from engine_sampler.testing import apply_sampler


@pytest.mark.parametrize("skew", [-1.5, 0.7])
def test_the_probabilities_are_those_of_the_formula(skew):
    logits = np.random.default_rng(1).normal(0, 2, 500).astype(np.float32)
    odds = np.exp(logits.astype(np.float64))
    order = np.argsort(-logits, kind="stable")
    expected = np.diff(np.cumsum(odds[order] / odds.sum()) ** np.exp(skew), prepend=0.0)
    result = np.exp(apply_sampler(Skew(), logits, {"skew": skew})[order])
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2.0**-30)
