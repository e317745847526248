"""skew: shift probability towards likely or unlikely tokens."""

from __future__ import annotations

import numpy as np

from ..arithmetic import LN_2, descending, distances, exp2_64, log2_64, power, weights
from ..contract import Example, Param, Rows, Sampler

MIN_SHARE = 2.0**-1022
"""The smallest normal float64; smaller shares are raised to it."""


class Skew(Sampler):
    """Raise the cumulative probability of the sorted distribution to the power e^skew.

    Formula: in (logit desc, id asc) order, with weights w and their sum S, Cᵢ = (w₁ + … + wᵢ)/S and
    tᵢ = Cᵢ^(e^skew); the new logit is ln(tᵢ − tᵢ₋₁), t₀ = 0, in float64 and rounded to float32 once.

    skew > 0 takes probability from the likeliest tokens, so the best token may change; skew < 0
    gives it to them. 0 is neutral. A token whose share vanishes keeps a logit of −708; removed
    tokens stay removed. Sums of weights are exact integers, so removed columns do not affect the
    result. Source: Aphrodite, which sums the probabilities without sorting them first, and TabbyAPI.
    """

    name = "skew"
    after = "min_p"
    params = (Param("skew", float, neutral=0.0, low=-10, high=10, doc="> 0 flattens, < 0 sharpens"),)
    examples = (
        Example((0.0, 0.0), {"skew": LN_2}, (-1.386294, -0.287682), note="1/2, 1/2 become 1/4, 3/4"),
        Example((1.0, -np.inf, 1.0), {"skew": -LN_2}, (-0.346574, -np.inf, -1.227947)),
    )

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        order = descending(logits)
        mass = np.take_along_axis(weights(distances(logits)), order, axis=1).cumsum(axis=1)
        exponent = exp2_64(rows["skew"] / LN_2)[:, None]
        share = np.diff(power(mass / mass[:, -1:], exponent), axis=1, prepend=0.0)
        skewed = np.empty_like(logits)
        np.put_along_axis(skewed, order, log2_64(np.maximum(share, MIN_SHARE)) * LN_2, axis=1)
        np.copyto(logits, skewed, where=logits > -np.inf)
