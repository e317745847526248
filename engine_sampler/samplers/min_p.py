"""min_p: drop tokens far less likely than the best one."""

from __future__ import annotations

import numpy as np

from ..arithmetic import LN_2, MASS_SLACK, keep_leading, log2_64
from ..contract import Example, Param, Rows, Truncation
from ._columns import at_least


class MinP(Truncation):
    """Keep tokens whose probability is at least min_p times that of the likeliest.

    Formula: keep l ≥ float32(max + ln(min_p) − 2^−20), the sum in float64. If fewer than
    `min_keep` tokens pass, the first `min_keep` tokens in order stay. No softmax is needed, since the
    ratio of two probabilities depends only on the difference of their logits.

    min_p = 0 is neutral; 1 keeps the likeliest token and those that tie with it.
    Source: Nguyen et al. 2024, arXiv 2407.01082; as in llama.cpp, transformers and vLLM, whose
    float32 thresholds lack the slack of 2^−20.
    """

    name = "min_p"
    cost = "pass"
    params = (Param("min_p", float, neutral=0.0, low=0, high=1, doc="least share of the best probability"),)
    argmax_invariant = True
    examples = (
        Example((2.0, 1.0, -3.0), {"min_p": 0.1}, (2.0, 1.0, -np.inf), note="e^-5 is below a tenth"),
        Example((2.0, 1.0, -3.0), {"min_p": 1.0}, (2.0, -np.inf, -np.inf)),
        Example((2.0, 1.0, -3.0), {"min_p": 1.0, "min_keep": 2}, (2.0, 1.0, -np.inf)),
    )

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        peak = rows.peaks(logits).astype(np.float64)
        threshold = (peak + rows.derived("ln(min_p)", min_p_depth) - MASS_SLACK).astype(np.float32)
        mask = logits >= threshold[:, None]
        floor = at_least(rows, logits)
        if floor.max() > 1:
            short = np.flatnonzero(mask.sum(axis=1) < floor)
            if len(short):
                mask[short] = keep_leading(logits[short], floor[short])
        return mask


def min_p_depth(rows: Rows) -> np.ndarray:
    """ln(min_p), float64 [n]."""
    return log2_64(rows["min_p"]) * LN_2
