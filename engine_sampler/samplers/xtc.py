"""xtc: exclude the top choices with some probability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arithmetic import coin, distances, keep_heavy, weight_of_share, weights
from ..contract import Example, Param, Rows, Truncation


class Xtc(Truncation):
    """With probability xtc_probability, drop all tokens that pass a threshold except the last of them.

    One coin is tossed per step. If it shows heads, all tokens above the threshold except the last are
    dropped. These are the longest prefix in (logit desc, id asc) order with
    w ≥ ceil(xtc_threshold·(1 − 2^−20)·S). Nothing is removed if fewer than
    max(1, min_keep) tokens would remain.

    A probability of 0 is neutral. A threshold above 1/2 is off, since no two tokens can pass it.
    The best token changes by design; this affects even a greedy choice.
    Source: p-e-w 2024 (text-generation-webui); as in llama.cpp, which draws the coin from its own
    generator and at threshold 0 may keep only a token that has already been removed.
    """

    name = "xtc"
    cost = "pass"
    params = (
        Param("xtc_probability", float, neutral=0.0, low=0, high=1, doc="how often top choices are dropped"),
        Param("xtc_threshold", float, neutral=0.1, low=0, high=1, switch=False,
              doc="least probability of a top choice; off above 0.5"),
    )  # fmt: skip
    argmax_invariant = False
    examples = (
        Example((2.0, 1.0, 0.0, -3.0), {"xtc_probability": 1.0, "xtc_threshold": 0.2},
                (-np.inf, 1.0, 0.0, -3.0), note="shares 0.66, 0.24, 0.09, 0.004: two are above"),
        Example((2.0, 1.0, 0.0, -3.0), {"xtc_probability": 1.0, "xtc_threshold": 0.3},
                (2.0, 1.0, 0.0, -3.0), note="a single token above stays"),
        Example((0.0, 0.0, 0.0), {"xtc_probability": 1.0}, (-np.inf, -np.inf, 0.0),
                note="the last id of a tie stays"),
        Example((0.0, 0.0, 0.0), {"xtc_probability": 1.0, "min_keep": 2}, (0.0, 0.0, 0.0)),
    )  # fmt: skip

    def is_active(self, params: Mapping[str, Any]) -> bool:
        return bool(params["xtc_probability"] > 0 and params["xtc_threshold"] <= 0.5)

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        return without_top_choices(logits, rows)


def without_top_choices(logits: np.ndarray, rows: Rows, counts: np.ndarray | None = None) -> np.ndarray:
    """bool [n, columns]: the columns that stay; those of `counts`, bool [n, columns], may be top choices, and
    with None all."""
    mask = np.ones(logits.shape, bool)
    heads = np.flatnonzero(coin(rows.draw(), rows["xtc_probability"]))
    if len(heads):
        threshold, min_keep = rows["xtc_threshold"][heads], rows["min_keep"][heads]
        counting = None if counts is None else counts[heads]
        mask[heads] = _without_top_choices(logits[heads], threshold, min_keep, counting)
    return mask


def _without_top_choices(
    logits: np.ndarray, threshold: np.ndarray, min_keep: np.ndarray, counts: np.ndarray | None
) -> np.ndarray:
    w = weights(distances(logits))
    above = keep_heavy(logits, w, weight_of_share(threshold, w.sum(axis=1)))
    if counts is not None:
        above &= counts
    dropped = above & ~_last_of(above, logits)
    remaining = (logits > -np.inf).sum(axis=1) - dropped.sum(axis=1)
    return ~(dropped & (remaining >= min_keep)[:, None])


def _last_of(above: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """bool [n, m]: the last token of each row's `above` in (logit desc, id asc) order."""
    lowest = np.where(above, logits, np.inf).min(axis=1, keepdims=True)
    ties = above & (logits == lowest)
    column = ties.shape[1] - 1 - ties[:, ::-1].argmax(axis=1)
    return np.arange(ties.shape[1]) == column[:, None]
