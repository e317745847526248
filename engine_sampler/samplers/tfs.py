"""tfs: cut off the flat tail of the sorted probabilities (tail-free sampling)."""

from __future__ import annotations

import numpy as np

from ..arithmetic import LOWEST_BITS, NARROW, distances, keep_leading, mass_within, weights
from ..contract import Example, Param, Rows, Truncation
from ._columns import at_least


class Tfs(Truncation):
    """Keep the tokens before the curve of sorted probabilities becomes straight, where the tail starts.

    Formula, over n tokens, w sorted in (logit desc, id asc) order: the bend at i is
    |w[i] − 2w[i+1] + w[i+2]|, i < n − 2; c[i] is the cumulative bend, C the total, and the row is
    cut at the first i with c[i] > floor((tfs + 2^−20)·C), all in integers.
    tfs_cut = "llama.cpp"  over the n remaining tokens; also requires i ≥ max(1, min_keep); i tokens
                           stay, or all if there is no such i, so that three tokens are never cut.
    tfs_cut = "koboldai"   over the n tokens of the vocabulary: those removed before form the end of
                           the tail, with weight 0. The first i + 1 stay, and the last of the n
                           never does, so that the second of a vocabulary of two is dropped.
    A row without any bend (C = 0) counts as evenly bent. Under "llama.cpp" one or two remaining tokens
    are left unchanged. The result depends on the remaining tokens and the vocabulary's size alone.

    1 is neutral; 0 keeps the tokens before the first bend, at least one.
    Source: Bricken 2019, "Tail free sampling". "llama.cpp" is the cut of llama.cpp (until October 2024) and
    koboldcpp, where a row already counts as evenly bent below a total of 1e-6. "koboldai" is that of
    KoboldAI, which has no min_keep, and of a row without any bend drops only the last token.
    """

    name = "tfs"
    cost = "sort"
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
        Example((3.0, 2.5, 2.0, -np.inf, -np.inf), {"tfs": 0.95, "tfs_cut": "koboldai"},
                (3.0, 2.5, 2.0, -np.inf, -np.inf), note="the last bend is in the tail of removed tokens"),
        Example((0.0,) * 6, {"tfs": 0.5}, (0.0, 0.0, *(-np.inf,) * 4), note="evenly bent: 1/4, 1/2, 3/4, 1"),
        Example((5.0, 0.0), {"tfs": 0.1}, (5.0, 0.0)),
    )  # fmt: skip

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        y = distances(logits)
        alive = (logits > -np.inf).sum(axis=1)
        floor = at_least(rows, logits)
        z, koboldai = rows["tfs"], rows["tfs_cut"] == "koboldai"
        tokens = np.where(koboldai, rows.vocabulary.size, alive)
        if logits.shape[1] <= NARROW:
            y.sort(axis=1)
            w = np.pad(weights(y[:, ::-1]), ((0, 0), (0, 2)))
            return keep_leading(logits, _counts(w, tokens, alive, floor, z, koboldai))
        counts = np.empty(len(logits), np.int64)
        for i in range(len(logits)):
            one = slice(i, i + 1)
            w = _sorted_weights(y[i], int(tokens[i]))[None]
            counts[one] = _counts(w, tokens[one], alive[one], floor[one], z[one], koboldai[one])
        return keep_leading(logits, counts)


def _sorted_weights(y: np.ndarray, tokens: int) -> np.ndarray:
    """The weights of a wide row in order, up to the second zero: there is no bend after it."""
    heavy = np.sort(y[y >= LOWEST_BITS])[::-1]
    w = np.zeros(min(tokens, len(heavy) + 2), np.int64)
    w[: len(heavy)] = weights(heavy)
    return w


def _counts(
    w: np.ndarray,
    tokens: np.ndarray,
    alive: np.ndarray,
    floor: np.ndarray,
    z: np.ndarray,
    koboldai: np.ndarray,
) -> np.ndarray:
    """How many of the `alive` tokens stay, int64 [n], for weights [n, k] in order, of which the first
    `tokens` form the curve."""
    bend = np.abs(w[:, :-2] - 2 * w[:, 1:-1] + w[:, 2:])
    inside = np.arange(bend.shape[1]) < tokens[:, None] - 2
    bend *= inside
    straight = ~bend.any(axis=1)
    bend[straight] = inside[straight]
    cumulative = bend.cumsum(axis=1)
    total = bend.sum(axis=1)
    limit = mass_within(z, total)
    cut = np.where(total > limit, (cumulative <= limit[:, None]).sum(axis=1), tokens)
    at_floor = np.maximum(np.where(koboldai, np.minimum(cut + 1, tokens - 1), cut), floor)
    whole = np.where(koboldai, at_floor >= alive, at_floor >= alive - 2)
    return np.where(whole, alive, at_floor)
