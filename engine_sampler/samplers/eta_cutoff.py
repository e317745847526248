"""eta_cutoff: drop tokens below a probability that falls with the row's entropy."""

from __future__ import annotations

import numpy as np

from ..arithmetic import distances, entropy_bits, exp2_64, keep_heavy, weight_of_share, weights
from ..contract import Example, Param, Rows, Truncation


class EtaCutoff(Truncation):
    """Keep tokens with a probability of at least min(eta, sqrt(eta)·exp(−H)), where H is the row's entropy.

    Formula: the longest prefix with w ≥ ceil(x·(1 − 2^−20)·S) stays, at least the first token;
    x = min(eta, sqrt(eta)·2^−H) with H = L + E/S in bits, in float64 (see `arithmetic`). A flat row
    thus has a lower threshold than with epsilon_cutoff. 0 is neutral; any other value also drops tokens
    with weight 0, which are more than 31 bits below the best.
    Source: Hewitt et al. 2022, arXiv 2210.15191; as computed by transformers (its documentation
    gives a different formula), except that `min_keep` has no effect here. text-generation-webui's unit
    is 1e-4 of this one.
    """

    name = "eta_cutoff"
    cost = "pass"
    params = (Param("eta_cutoff", float, neutral=0.0, low=0, high=1, doc="threshold if peaked; about 3e-4"),)
    argmax_invariant = True
    examples = (
        Example((2.0, 1.0, -2.0), {"eta_cutoff": 0.04}, (2.0, 1.0, -np.inf),
                note="shares 0.72, 0.27, 0.01; the entropy is below 1.6, so the threshold is eta"),
        Example((0.0,) * 8, {"eta_cutoff": 0.5}, (0.0,) * 8, note="the threshold of a flat row is 0.09"),
        Example((0.0, 9.0), {"eta_cutoff": 1.0}, (-np.inf, 9.0)),
    )  # fmt: skip

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        y = distances(logits)
        w = weights(y)
        eta = rows["eta_cutoff"]
        share = np.minimum(eta, np.sqrt(eta) * exp2_64(-entropy_bits(y, w)))
        return keep_heavy(logits, w, weight_of_share(share, w.sum(axis=1)))
