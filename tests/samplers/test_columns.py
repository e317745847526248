"""The shared helpers of samplers."""

from __future__ import annotations

import numpy as np

from engine_sampler import SamplingParams
from engine_sampler.registry import default_registry
from engine_sampler.samplers._columns import at_least
from engine_sampler.testing import make_rows


def test_at_least_is_one_or_min_keep_but_at_most_the_number_of_tokens() -> None:
    logits = np.array([[1, 2, -np.inf]] * 4, np.float32)
    for given_keeps, expected in (([0, 1, 2, 9], [1, 1, 2, 2]), ([0, 1, 1, 0], [1, 1, 1, 1])):
        params = [SamplingParams(min_keep=k) for k in given_keeps]
        rows = make_rows(default_registry().catalogue.samplers["top_p"], params, 3)
        assert at_least(rows, logits).tolist() == expected
