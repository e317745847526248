"""p_less: keep the tokens that are at least as likely as two draws are to be the same."""

from __future__ import annotations

import numpy as np

from ..arithmetic import distances, keep_heavy, weights
from ..contract import Example, Param, Rows, Truncation


class PLess(Truncation):
    """Keep tokens with a probability of at least Σp², that of drawing the same token twice.

    Formula: S = Σw and Q = Σw² over the n remaining tokens; the longest prefix with w·S ≥ Q stays. With
    p_less_norm the threshold is (n·Σp² − 1)/(n − 1): w·S·(n − 1) ≥ n·Q − S². Both are exact, in integers.
    The threshold is at most the best probability, so the first token always stays. There is nothing to tune:
    a peaked row is cut to a few tokens, a flat one keeps most. p_less_norm keeps more, and tokens of weight 0
    only where all weights are equal.

    False is neutral for both; p_less_norm alone is enough for its form. `min_keep` has no effect. Before
    the temperature, probabilities are those at temperature 1.
    Source: Tan et al. 2025, arXiv 2509.23234; vLLM applies it after the temperature, with float32 sums.
    """

    name = "p_less"
    after = "min_p"
    cost = "pass"
    params = (
        Param("p_less", bool, neutral=False, doc="keep tokens with a probability of at least Σp²"),
        Param(
            "p_less_norm", bool, neutral=False, doc="the same with the lower threshold (n·Σp² − 1)/(n − 1)"
        ),
    )
    argmax_invariant = True
    examples = (
        Example((2.0, 1.0, 0.0, -1.0), {"p_less": True}, (2.0, -np.inf, -np.inf, -np.inf),
                note="shares 0.64, 0.24, 0.09, 0.03; Σp² is 0.48"),
        Example((1.0, 0.5, 0.0, -1.0), {"p_less_norm": True}, (1.0, 0.5, 0.0, -np.inf),
                note="shares 0.47, 0.29, 0.17, 0.06; the threshold is 0.12"),
        Example((1.0, 1.0, -np.inf), {"p_less": True}, (1.0, 1.0, -np.inf), note="exactly a half each"),
    )  # fmt: skip

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        w = weights(distances(logits))
        alive = (logits > -np.inf).sum(axis=1)
        sums = zip(
            w.sum(axis=1).tolist(), _squares(w), alive.tolist(), rows["p_less_norm"].tolist(), strict=True
        )
        needs = [collision_weight(total, squares, n if norm else None) for total, squares, n, norm in sums]
        return keep_heavy(logits, w, np.array(needs, np.int64))


def collision_weight(total: int, squares: int, alive: int | None) -> int:
    """The least weight that stays where S = `total` and Q = `squares`; `alive`: n, for the norm form."""
    if alive is None:
        return -(-squares // total)
    return 0 if alive == 1 else -((total * total - alive * squares) // (total * (alive - 1)))


def _squares(w: np.ndarray) -> list[int]:
    """Σw² of each row of `w` int64 [n, m]; up to 62 bits each, so that they are added in two parts."""
    square = w * w
    high, low = (square >> 32).sum(axis=1), (square & 0xFFFFFFFF).sum(axis=1)
    return [(a << 32) + b for a, b in zip(high.tolist(), low.tolist(), strict=True)]
