"""typical_p: keep the tokens whose information content is closest to the expected one."""

from __future__ import annotations

import numpy as np

from ..arithmetic import (
    NARROW,
    descending,
    distances,
    information,
    keep_first,
    mass_reaching,
    reorder,
    weights,
)
from ..contract import Example, Param, Rows, Truncation
from ._columns import at_least

_BOUNDS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
"""The scores, in bits, up to which a wide row is examined, until the mass suffices."""


class TypicalP(Truncation):
    """Keep the most typical tokens, until they hold a probability of at least typical_p.

    Formula: a token's score is |−log2 p − H|, the distance of its information content from the entropy
    H of the row; the shortest prefix in ascending order of the score with cumulative weight ≥
    max(1, ceil((typical_p − 2^−20)·S)) stays, and at least `min_keep` tokens. Both −log2 p and H
    are measured from the likeliest token: score = |d − float32(E/S)| in float32 (see
    `arithmetic`). Equal scores are in (logit desc, id asc) order.

    The likeliest token may be dropped. 1 is neutral; 0 keeps the most typical token.
    Source: Meister et al. 2022, arXiv 2202.00666; KoboldAI, llama.cpp and transformers keep the
    crossing token too. transformers also keeps all tokens that tie with it; llama.cpp's entropy
    becomes NaN if a token has already been removed, whereas removed tokens do not count here.
    """

    name = "typical_p"
    cost = "select"
    params = (Param("typical_p", float, neutral=1.0, low=0, high=1, doc="share of typical tokens to keep"),)
    argmax_invariant = False
    examples = (
        Example((0.7, 0.0, 0.0, 0.0), {"typical_p": 0.15}, (-np.inf, 0.0, -np.inf, -np.inf),
                note="the likeliest token is the least typical one; ties go to the lower id"),
        Example((4.0, 0.0, 0.0, 0.0), {"typical_p": 0.9}, (4.0, -np.inf, -np.inf, -np.inf)),
        Example((4.0, 0.0, -np.inf, 0.0), {"typical_p": 0.9, "min_keep": 2}, (4.0, 0.0, -np.inf, -np.inf)),
    )  # fmt: skip

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        y = distances(logits)
        w = weights(y)
        total = w.sum(axis=1)
        expected = (information(w, y).sum(axis=1) / total).astype(np.float32)
        score = np.abs(y + expected[:, None])
        need = mass_reaching(rows["typical_p"], total)
        floor = at_least(rows, logits)
        if logits.shape[1] <= NARROW:
            return _most_typical(logits, score, w, need, floor)
        mask = np.zeros(logits.shape, bool)
        for i in range(len(logits)):
            one = slice(i, i + 1)
            near = _near(logits[i], score[i], w[i], need[i], floor[i])
            mask[one, near] = _most_typical(
                logits[one, near], score[one, near], w[one, near], need[one], floor[one]
            )
        return mask


def _most_typical(
    logits: np.ndarray, score: np.ndarray, w: np.ndarray, need: np.ndarray, floor: np.ndarray
) -> np.ndarray:
    """bool [n, m]: each row's shortest prefix in (score, logit desc, id) order with weight `need`."""
    order = descending(logits)
    by_score = descending(-reorder(score, order))
    order = reorder(order, by_score)
    cumulative = reorder(w, order).cumsum(axis=1)
    crossing = (cumulative < need[:, None]).sum(axis=1) + 1
    return keep_first(order, np.maximum(crossing, floor))


def _near(row: np.ndarray, score: np.ndarray, w: np.ndarray, need: int, floor: int) -> np.ndarray:
    """Columns of a wide row with all tokens up to some score, which include all tokens that stay."""
    for bound in _BOUNDS:
        near = np.flatnonzero(score <= np.float32(bound))
        if len(near) >= floor and w[near].sum() >= need:
            return near
    return np.flatnonzero(row > -np.inf)
