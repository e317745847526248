"""RobustZ obeys the laws of samplers and computes its formula."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from engine_sampler_robust_z import RobustZ

from engine_sampler.testing import SamplerContract, apply_sampler


class TestRobustZ(SamplerContract):
    sampler = RobustZ()
    params = [{"robust_z": 0.5}, {"robust_z": 2.0}, {"robust_z": 6.0}]
    apply_at_neutral = False  # it would keep what is above the median


@pytest.mark.parametrize("z", [0.5, 2.5])
def test_the_tokens_that_stay_are_those_of_the_formula(z: float) -> None:
    logits = np.random.default_rng(1).normal(0, 2, 500).astype(np.float32)
    median = statistics.median(logits.tolist())
    spread = statistics.median(abs(x - median) for x in logits.tolist())
    result = apply_sampler(RobustZ(), logits, {"robust_z": z})
    assert (result > -np.inf).tolist() == [x >= median + z * 1.4826 * spread for x in logits.tolist()]
