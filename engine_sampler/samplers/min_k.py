"""min_k: keep the tokens before the steepest drop of the sorted logits."""

from __future__ import annotations

import numpy as np

from ..arithmetic import keep_leading, top_columns
from ..contract import Example, Param, Rows, Truncation

RANGE_FLOOR = 1e-8
"""Added to the range of the logits, so that that of equal ones is not 0."""

_HEAD, _GROWTH = 64, 4
"""How many logits are sorted at first, and how many times as many next."""


class MinK(Truncation):
    """Keep the first k tokens, (logit desc, id asc): those before the steepest drop of the logits.

    Formula, with l_1 ≥ l_2 ≥ … ≥ l_n the remaining logits: the drop after token i is d_i = (l_i − l_{i+1})/i;
    k is the first i with the greatest d_i, or floor(min_k_tau/R) if that is more, R = (l_1 − l_n) + 1e-8. All
    in float64, each operation rounded once. Dividing the drops by R as well, as the paper does, changes no
    comparison. The first token always stays.

    The place of the drop does not depend on the temperature. The floor does, because R shrinks as the
    temperature grows; with 0 there is no floor. It matters for almost flat rows: of equal logits, k would
    be 1. False is neutral. `min_keep` has no effect.
    Source: Ding et al. 2026, arXiv 2604.11012; vLLM's pull request 48142, which keeps all that equal the
    last token, and applies it after the temperature.
    """

    name = "min_k"
    after = "min_p"
    cost = "select"
    params = (
        Param("min_k", bool, neutral=False, doc="cut at the steepest drop of the sorted logits"),
        Param("min_k_tau", float, neutral=3.0, low=0, switch=False,
              doc="at least this number, divided by the range of the logits, stays"),
    )  # fmt: skip
    argmax_invariant = True
    examples = (
        Example((5.0, 4.5, 1.0, 0.5), {"min_k": True}, (5.0, 4.5, -np.inf, -np.inf),
                note="drops 0.5, 3.5 / 2 and 0.5 / 3"),
        Example((5.0, 3.0, 1.0), {"min_k": True}, (5.0, -np.inf, -np.inf), note="drops 2 and 2 / 2"),
        Example((1.0, 1.0, 0.0, -np.inf), {"min_k": True, "min_k_tau": 3.5}, (1.0, 1.0, 0.0, -np.inf),
                note="the drop is after 2, the floor 3.5 / 1"),
        Example((1.0, 1.0, 1.0), {"min_k": True, "min_k_tau": 0.0}, (1.0, -np.inf, -np.inf)),
    )  # fmt: skip

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        pairs = zip(logits, rows["min_k_tau"].tolist(), strict=True)
        counts = np.array([_count(row, tau) for row, tau in pairs], np.int64)
        mask = np.ones(logits.shape, bool)
        cut = np.flatnonzero(counts < logits.shape[1])
        mask[cut] = keep_leading(logits[cut], counts[cut])
        return mask


def _count(row: np.ndarray, tau: float) -> int:
    """How many tokens of float32 `row` [m] stay; m if all do."""
    alive = row > -np.inf
    n, lowest = int(np.count_nonzero(alive)), float(row.min(where=alive, initial=np.inf))
    floor = tau / ((float(row.max()) - lowest) + RANGE_FLOOR)
    return max(_cliff(row, n, lowest), int(min(floor, float(len(row)))))


def _cliff(row: np.ndarray, n: int, lowest: float) -> int:
    """After how many of the `n` logits that are left of `row` the steepest drop is. Sorts as many as can
    matter: a drop behind the first i is at most what is left of the range, divided by i."""
    size = min(_HEAD, n)
    while n > 1:
        head = row[top_columns(row, size)].astype(np.float64)
        drops = (head[:-1] - head[1:]) / np.arange(1, size)
        cliff = int(drops.argmax())
        if size == n or (head[-1] - lowest) / size <= drops[cliff]:
            return cliff + 1
        size = min(_GROWTH * size, n)
    return 1
