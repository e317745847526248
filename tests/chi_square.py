"""Pearson's chi-square test for selectors: do drawn tokens follow a distribution?"""

from __future__ import annotations

import numpy as np

from engine_sampler.testing.library import p_value

MIN_EXPECTED = 5.0
"""Tokens expected less often than this share one bin."""

SIGNIFICANCE = 1e-4
"""Seeds are fixed, so a test always gives the same result; a new correct test fails with this probability."""


def agreement(probabilities: np.ndarray, tokens: np.ndarray) -> float:
    """The p-value of `tokens` under the distribution `probabilities` [vocab]."""
    expected = np.asarray(probabilities) * len(tokens)
    counts = np.bincount(tokens, minlength=len(expected))
    rare = expected < MIN_EXPECTED
    assert not counts[np.equal(probabilities, 0)].any(), "a token of probability 0 was drawn"
    bins = np.append(expected[~rare], expected[rare].sum())
    seen = np.append(counts[~rare], counts[rare].sum())
    if bins[-1] < MIN_EXPECTED:
        bins, seen = np.append(bins[:-2], bins[-2:].sum()), np.append(seen[:-2], seen[-2:].sum())
    return p_value(float(((seen - bins) ** 2 / bins).sum()), len(bins) - 1)


def assert_drawn_from(probabilities: np.ndarray, tokens: np.ndarray) -> None:
    """Fail if `tokens` are not drawn from `probabilities`."""
    p = agreement(probabilities, tokens)
    assert p > SIGNIFICANCE, f"the draws do not follow the distribution: p = {p:.2g}"
