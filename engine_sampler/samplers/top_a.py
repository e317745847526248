"""top_a: drop tokens with a probability below a times the square of the best one."""

from __future__ import annotations

import numpy as np

from ..arithmetic import ONE_WEIGHT, distances, keep_heavy, weight_of_share, weights
from ..contract import Example, Param, Rows, Truncation


class TopA(Truncation):
    """Keep tokens with a probability of at least top_a · pmax².

    Formula: the longest prefix with w ≥ ceil(x·(1 − 2^−20)·S) stays, x = top_a·(2^30/S)² in
    float64; at least the first token. The likelier the best token, the more tokens are dropped. 0 is
    neutral; at 1/pmax only the likeliest token and those that tie with it stay, above it only the first.
    `min_keep` has no effect. Source: BlinkDL's RWKV-LM; the rule is KoboldAI's and koboldcpp's.
    """

    name = "top_a"
    cost = "pass"
    params = (Param("top_a", float, neutral=0.0, low=0, doc="least p as a multiple of the best p squared"),)
    argmax_invariant = True
    examples = (
        Example((2.0, 1.0, 0.0), {"top_a": 0.4}, (2.0, 1.0, -np.inf),
                note="shares 0.67, 0.24, 0.09 and a threshold of 0.18"),
        Example((0.0, 0.0, 0.0), {"top_a": 1.0}, (0.0, 0.0, 0.0), note="a third is above a ninth"),
        Example((2.0, 1.0, 0.0), {"top_a": 9.0}, (2.0, -np.inf, -np.inf)),
    )  # fmt: skip

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        w = weights(distances(logits))
        total = w.sum(axis=1)
        best = ONE_WEIGHT / total
        return keep_heavy(logits, w, weight_of_share(rows["top_a"] * (best * best), total))
