"""top_h: keep the likeliest tokens that hold a share of the row's entropy."""

from __future__ import annotations

import numpy as np

from ..arithmetic import distances, information, keep_prefix, log2_mass, reorder, weights
from ..contract import Example, Param, Rows, Truncation


class TopH(Truncation):
    """Keep the longest prefix, in (logit desc, id asc) order, with at most top_h of the entropy.

    Formula: a token adds −p·log2 p; with cumulative weight W and information U of the prefix,
    L·W + U ≤ top_h·(L·S + E) in float64 (see `arithmetic`); the first token always stays, and stays
    alone if L·S + E = 0: in a row without entropy, only one token has a weight above 0. A peaked row
    is cut early, a flat one keeps a share top_h of its tokens. 0 is neutral, which means off; 1 keeps
    every token of a row with entropy. `min_keep` has no effect.
    Source: Baghaei Potraghloo et al. 2025, arXiv 2509.02510. transformers considers only its top 100
    tokens: it uses their entropy, not the row's, and never keeps more; here the whole row counts.
    """

    name = "top_h"
    cost = "select"
    params = (
        Param("top_h", float, neutral=0.0, low=0, high=1, doc="share of the entropy to keep; 0 is off"),
    )
    argmax_invariant = True
    examples = (
        Example((0.0, 0.0, 0.0, 0.0), {"top_h": 0.5}, (0.0, 0.0, -np.inf, -np.inf),
                note="each of four equal tokens holds a quarter of the entropy"),
        Example((3.0, 2.0, 1.0, 0.0), {"top_h": 0.4}, (3.0, -np.inf, -np.inf, -np.inf),
                note="the tokens hold 0.30, 0.36, 0.22, 0.11 of it"),
        Example((3.0, 2.0, 1.0, 0.0), {"top_h": 0.7}, (3.0, 2.0, -np.inf, -np.inf)),
    )  # fmt: skip

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        y = distances(logits)
        w = weights(y)
        u = information(w, y)
        total = w.sum(axis=1)
        level = log2_mass(total)
        entropy = level * total + u.sum(axis=1)
        limit = np.where(entropy > 0, rows["top_h"] * entropy, -1.0)

        def count(which: slice, order: np.ndarray) -> np.ndarray:
            mass = reorder(w[which], order).cumsum(axis=1)
            bits = reorder(u[which], order).cumsum(axis=1)
            passing = level[which, None] * mass + bits <= limit[which, None]
            return np.maximum(1, passing.sum(axis=1))

        return keep_prefix(logits, y, count)
