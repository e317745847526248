"""mirostat_v2: keep the surprise of the text near a target by dropping tokens above mu."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..arithmetic import keep_above_best, log2_mass
from ..contract import Example, Rows
from .mirostat import SurpriseControl, current_mu


class MirostatV2(SurpriseControl):
    """Drop the tokens whose surprise exceeds mu bits, draw from the rest, and adjust mu.

    Formula: keep d ≤ float32(mu − L), d = −y and L = log2_64(Σw) − 30, at least the best token.
    mu is adjusted by the surprise of the drawn token among those kept; see `SurpriseControl`.

    Selected by `mirostat` = 2; the parameters belong to `mirostat`, which says what stays in the chain
    beside it. Source: llama.cpp's mirostat 2.0, after Basu et al. 2020, arXiv 2007.14966. llama.cpp
    works in float32 and adjusts mu even if the token is not accepted.
    """

    name = "mirostat_v2"
    examples = (
        Example((0.0, -np.inf, -np.inf), {"mirostat": 2}, token=0, note="the only token left"),
        Example((1.0, 3.0, 2.0), {"mirostat": 2, "mirostat_tau": 0.0}, token=1, note="a target of zero"),
    )

    def is_active(self, params: Mapping[str, int]) -> bool:
        return params["mirostat"] == 2

    def keep(self, logits: np.ndarray, y: np.ndarray, w: np.ndarray, rows: Rows) -> np.ndarray:
        limit = (current_mu(rows) - log2_mass(w.sum(axis=1))).astype(np.float32)
        return keep_above_best(logits, -y > limit[:, None])
