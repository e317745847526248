"""epsilon_cutoff: drop tokens below an absolute probability."""

from __future__ import annotations

import numpy as np

from ..arithmetic import distances, keep_heavy, weight_of_share, weights
from ..contract import Example, Param, Rows, Truncation


class EpsilonCutoff(Truncation):
    """Keep tokens with a probability of at least epsilon_cutoff.

    Formula: the longest prefix with w ≥ ceil(epsilon_cutoff·(1 − 2^−20)·S) stays; the first token
    in order stays even if it fails. 0 is neutral; any other value also drops tokens with weight 0,
    which are more than 31 bits below the best.
    Source: Hewitt et al. 2022, arXiv 2210.15191; as in transformers, except that `min_keep` has no
    effect here. text-generation-webui's unit is 1e-4 of this one.
    """

    name = "epsilon_cutoff"
    cost = "pass"
    params = (
        Param("epsilon_cutoff", float, neutral=0.0, low=0, high=1, doc="least probability; about 3e-4"),
    )
    argmax_invariant = True
    examples = (
        Example((2.0, 1.0, -1.0), {"epsilon_cutoff": 0.1}, (2.0, 1.0, -np.inf),
                note="shares 0.71, 0.26, 0.04"),
        Example((0.0, 0.0, 0.0, 0.0), {"epsilon_cutoff": 0.25}, (0.0, 0.0, 0.0, 0.0),
                note="a quarter each is just enough"),
        Example((0.0, 0.5, 0.0), {"epsilon_cutoff": 0.9}, (-np.inf, 0.5, -np.inf)),
    )  # fmt: skip

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        w = weights(distances(logits))
        return keep_heavy(logits, w, weight_of_share(rows["epsilon_cutoff"], w.sum(axis=1)))
