"""top_p: keep the likeliest tokens that together hold a share p of the probability (nucleus)."""

from __future__ import annotations

import numpy as np

from ..arithmetic import distances, keep_prefix, mass_reaching, mass_within, reorder, weights
from ..contract import Example, Param, Rows, Truncation
from ._columns import at_least


class TopP(Truncation):
    """Keep the shortest prefix, in (logit desc, id asc) order, with a probability of at least top_p.

    Formula, with c the cumulative weight and S the total:
    top_p_cut = "reach"   up to and including the token at which c ≥ max(1, ceil((p − 2^−20)·S));
    top_p_cut = "exceed"  up to and including the token at which c > floor((p + 2^−20)·S);
    top_p_cut = "below"   while c ≤ floor((p + 2^−20)·S), so that the crossing token is dropped.
    The first token always stays, and at least `min_keep` tokens do. top_p = 0 keeps one token; 1 is
    neutral.

    Owing to the slack of 2^−20, a p that equals a sum of probabilities cuts right after that sum.
    Source: Holtzman et al. 2019, arXiv 1904.09751. "reach" is the rule of llama.cpp, transformers, vLLM
    and MLX, and of MindIE's document; "exceed" that of MindIE's implementation; "below" that of KoboldAI,
    which ignores min_keep. llama.cpp sums in float32, with an error of nearly 1e-3 on a wide vocabulary;
    integer weights have none.
    """

    name = "top_p"
    cost = "select"
    params = (
        Param("top_p", float, neutral=1.0, low=0, high=1, doc="share of the probability to keep"),
        Param("top_p_cut", str, neutral="reach", choices=("reach", "exceed", "below"), switch=False,
              doc="where to cut: at the token that reaches p, that exceeds p, or before it"),
    )  # fmt: skip
    argmax_invariant = True
    examples = (
        Example((3.0, 2.0, 1.0, 0.0), {"top_p": 0.8}, (3.0, 2.0, -np.inf, -np.inf),
                note="shares 0.64, 0.24, 0.09, 0.03: the second token crosses 0.8"),
        Example((3.0, 2.0, 1.0, 0.0), {"top_p": 0.8, "top_p_cut": "below"},
                (3.0, -np.inf, -np.inf, -np.inf)),
        Example((1.0, 1.0, 1.0, 1.0), {"top_p": 0.5}, (1.0, 1.0, -np.inf, -np.inf),
                note="two of four reach one half exactly"),
        Example((1.0, 1.0, 1.0, 1.0), {"top_p": 0.5, "top_p_cut": "exceed"}, (1.0, 1.0, 1.0, -np.inf)),
        Example((3.0, 2.0, 1.0, 0.0), {"top_p": 0.0, "min_keep": 2}, (3.0, 2.0, -np.inf, -np.inf)),
    )  # fmt: skip

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        return nucleus(logits, rows, rows["top_p"])


def nucleus(logits: np.ndarray, rows: Rows, p: np.ndarray) -> np.ndarray:
    """bool [n, columns]: the columns that stay if row i keeps a share `p`[i], float64 [n]."""
    y = distances(logits)
    w = weights(y)
    total = w.sum(axis=1)
    reach = rows.derived("top_p reaches", lambda group: group["top_p_cut"] == "reach")
    crossing = rows.derived("top_p crosses", lambda group: group["top_p_cut"] != "below")
    limit = mass_reaching(p, total) - 1
    if not reach.all():
        limit = np.where(reach, limit, mass_within(p, total))
    floor = at_least(rows, logits)

    def count(which: slice, order: np.ndarray) -> np.ndarray:
        cumulative = reorder(w[which], order).cumsum(axis=1)
        inside = (cumulative <= limit[which, None]).sum(axis=1)
        return np.maximum(inside + crossing[which], floor[which])

    return keep_prefix(logits, y, count)
