"""tfs: cut off the flat tail of the sorted probabilities (tail-free sampling)."""

from __future__ import annotations

import numpy as np

from ..arithmetic import LOWEST_BITS, NARROW, distances, keep_leading, mass_within, weights
from ..contract import Example, Param, Rows, Truncation
from ._columns import at_least


class Tfs(Truncation):
    """Keep the tokens before the curve of sorted probabilities becomes straight, where the tail starts.

    Formula, over the m remaining tokens, w sorted in (logit desc, id asc) order: the bend at i is
    |w[i] − 2w[i+1] + w[i+2]|, i < m − 2; c[i] is the cumulative bend, C the total, and the row is
    cut at the first i with c[i] > floor((tfs + 2^−20)·C), all in integers.
    tfs_cut = "llama.cpp"  also requires i ≥ max(1, min_keep); i tokens stay, or all if there is no
                           such i, so that three tokens are never cut.
    tfs_cut = "koboldai"   i + 1 tokens stay, and the last of the m tokens is always dropped.
    A row without any bend (C = 0) counts as evenly bent. One or two tokens are left unchanged.

    1 is neutral; 0 keeps the tokens before the first bend, at least one.
    Source: Bricken 2019, "Tail free sampling". "llama.cpp" is the cut of llama.cpp (until October 2024) and
    koboldcpp, where a row already counts as evenly bent below a total of 1e-6. KoboldAI ignores
    min_keep, counts removed tokens as part of the tail, and drops the second of two tokens.
    """

    name = "tfs"
    params = (
        Param("tfs", float, neutral=1.0, low=0, high=1, doc="share of the bend to keep; also called z"),
        Param("tfs_cut", str, neutral="llama.cpp", choices=("llama.cpp", "koboldai"), switch=False,
              doc="where to cut; koboldai keeps one more token, never the last"),
    )  # fmt: skip
    argmax_invariant = True
    examples = (
        Example((-0.9163, -1.204, -1.8971, -2.3026, -2.9957), {"tfs": 0.5},
                (-0.9163, -np.inf, -np.inf, -np.inf, -np.inf),
                note="shares 0.4, 0.3, 0.15, 0.1, 0.05 bend by 0.05, 0.1, 0: cumulatively 1/3, 1, 1"),
        Example((-0.9163, -1.204, -1.8971, -2.3026, -2.9957), {"tfs": 0.5, "tfs_cut": "koboldai"},
                (-0.9163, -1.204, -np.inf, -np.inf, -np.inf)),
        Example((0.0,) * 6, {"tfs": 0.5}, (0.0, 0.0, *(-np.inf,) * 4), note="evenly bent: 1/4, 1/2, 3/4, 1"),
        Example((5.0, 0.0), {"tfs": 0.1}, (5.0, 0.0)),
    )  # fmt: skip

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        y = distances(logits)
        alive = (logits > -np.inf).sum(axis=1)
        floor = at_least(rows, logits)
        z, koboldai = rows["tfs"], rows["tfs_cut"] == "koboldai"
        if logits.shape[1] <= NARROW:
            y.sort(axis=1)
            counts = _counts(weights(y[:, ::-1]), alive, floor, z, koboldai)
            return keep_leading(logits, counts)
        counts = np.empty(len(logits), np.int64)
        for i in range(len(logits)):
            one = slice(i, i + 1)
            w = _sorted_weights(y[i], int(alive[i]))[None]
            counts[one] = _counts(w, alive[one], floor[one], z[one], koboldai[one])
        return keep_leading(logits, counts)


def _sorted_weights(y: np.ndarray, alive: int) -> np.ndarray:
    """The weights of a wide row in order, up to the second zero: there is no bend after it."""
    heavy = np.sort(y[y >= LOWEST_BITS])[::-1]
    w = np.zeros(min(alive, len(heavy) + 2), np.int64)
    w[: len(heavy)] = weights(heavy)
    return w


def _counts(
    w: np.ndarray, alive: np.ndarray, floor: np.ndarray, z: np.ndarray, koboldai: np.ndarray
) -> np.ndarray:
    """How many tokens stay, int64 [n], for weights [n, k] in order."""
    bend = np.abs(w[:, :-2] - 2 * w[:, 1:-1] + w[:, 2:])
    inside = np.arange(bend.shape[1]) < alive[:, None] - 2
    bend *= inside
    straight = ~bend.any(axis=1)
    bend[straight] = inside[straight]
    cumulative = bend.cumsum(axis=1)
    total = bend.sum(axis=1)
    limit = mass_within(z, total)
    cut = np.where(total > limit, (cumulative <= limit[:, None]).sum(axis=1), alive)
    at_floor = np.maximum(cut, floor)
    llama_cpp_counts = np.where(at_floor < alive - 2, at_floor, alive)
    koboldai_counts = np.where(alive > 2, np.maximum(np.minimum(cut + 1, alive - 1), floor), alive)
    return np.where(koboldai, koboldai_counts, llama_cpp_counts)
