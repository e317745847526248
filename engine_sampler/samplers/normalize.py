"""normalize: logprobs in place of logits, before the penalties read their signs."""

from __future__ import annotations

import numpy as np

from ..arithmetic import log_total
from ..contract import Example, Param, Rows, Sampler
from ._columns import store


class Normalize(Sampler):
    """Replace the logits by logprobs, so that a repetition penalty lowers every token that occurred.

    Formula: l − ln Σ exp(l) in float64, rounded once and clamped to −FLT_MAX; the sum is that of integer
    weights. Afterwards no logit is above 0, so that `penalties` multiplies each by repetition_penalty.
    False is neutral. Source: transformers (normalize of its repetition penalty).
    """

    name = "normalize"
    role = "penalty"
    cost = "pass"
    params = (
        Param("repetition_penalty_normalize", bool, neutral=False,
              doc="whether repetition_penalty is applied to logprobs"),
    )  # fmt: skip
    examples = (
        Example((0.0, 0.0), {"repetition_penalty_normalize": True}, (-0.693147, -0.693147)),
        Example((2.0, -np.inf), {"repetition_penalty_normalize": True}, (0.0, -np.inf)),
    )

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for row in logits:
            columns = np.flatnonzero(row > -np.inf)
            store(row, columns, row[columns].astype(np.float64) - log_total(row))
