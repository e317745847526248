"""top_n_sigma: keep logits within n standard deviations of the greatest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contract import Example, Param, Rows, Truncation

SIGMA_CHUNK = 256
"""How many columns one partial sum covers."""


class TopNSigma(Truncation):
    """Keep tokens whose logit is at least max − top_n_sigma·σ.

    σ is the population standard deviation of the finite logits: σ² = max(0, Σx²/n − (Σx/n)²) in
    float64 for the n remaining tokens, x = l − max in float32; x ≥ float32(−top_n_sigma·σ) stays. If
    Σx² is not finite, nothing is removed. Because it works on logits, temperature does not change
    which tokens are kept.

    The sums have a fixed order, by token id, so that they are the same on every backend and for
    every subset of columns. A chunk is 256 ids; lane j of a chunk holds the ids ≡ j mod 64. Lanes are
    added in float32, ascending; lanes j, j + 16, j + 32, j + 48 become (a + b) + (c + d), j < 16;
    those 16 are added up in float64, chunk by chunk, and folded in halves at the end. x² is rounded
    to float32 before it is added. Removed tokens add +0.

    0 is neutral; values ≤ 0 are off. `min_keep` has no effect.
    Source: Tang et al. 2024, arXiv 2411.07641; llama.cpp also uses the population deviation of the
    finite logits. Aphrodite's deviation is NaN if a token has already been removed.
    """

    name = "top_n_sigma"
    cost = "pass"
    params = (Param("top_n_sigma", float, neutral=0.0, doc="deviations below the best; 0 or less is off"),)
    argmax_invariant = True
    examples = (
        Example((4.0, 0.0, 0.0), {"top_n_sigma": 1.0}, (4.0, -np.inf, -np.inf), note="the deviation is 1.89"),
        Example((4.0, 0.0, 0.0), {"top_n_sigma": 3.0}, (4.0, 0.0, 0.0)),
        Example((1.0, 1.0, -np.inf), {"top_n_sigma": 1.0}, (1.0, 1.0, -np.inf), note="no deviation at all"),
    )

    def is_active(self, params: Mapping[str, Any]) -> bool:
        return bool(params["top_n_sigma"] > 0)

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        x = logits - logits.max(axis=1, keepdims=True)
        alive = logits > -np.inf
        counted = np.where(alive, x, np.float32(0))
        n = alive.sum(axis=1)
        mean = sum_by_id(counted, rows.ids) / n
        squares = sum_by_id(counted * counted, rows.ids)
        sigma = np.sqrt(np.maximum(0.0, squares / n - mean * mean))
        reach = np.where(np.isfinite(squares), rows["top_n_sigma"] * sigma, np.inf)
        return x >= (-reach).astype(np.float32)[:, None]


def sum_by_id(values: np.ndarray, ids: np.ndarray | None) -> np.ndarray:
    """Sums of float32 `values` [n, m], added in the order described in the class; float64 [n]."""
    a, b, c, d = _lanes_of_row(values) if ids is None else _lanes_of_subset(values, ids)
    folded = ((a + b) + (c + d)).astype(np.float64).cumsum(axis=1)[:, -1]
    while folded.shape[1] > 1:
        half = folded.shape[1] // 2
        folded = folded[:, :half] + folded[:, half:]
    return folded[:, 0]


def _lanes_of_row(values: np.ndarray) -> np.ndarray:
    """The 4·16 lanes of every chunk, float32 [4, n, chunks, 16], where column j is token j."""
    n, m = values.shape
    chunks = -(-m // SIGMA_CHUNK)
    padded = np.zeros((n, chunks * SIGMA_CHUNK), np.float32)
    padded[:, :m] = values
    first, second, third, fourth = np.moveaxis(padded.reshape(n, chunks, 4, 4, 16), 2, 0)
    return np.moveaxis(((first + second) + third) + fourth, 2, 0)


def _lanes_of_subset(values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The same for ascending `ids` [n, m]; chunks without any of them are left out."""
    n = len(ids)
    chunk = ids // SIGMA_CHUNK
    index = np.zeros(ids.shape, np.int64)  # of each id's chunk among those that are present
    np.cumsum(chunk[:, 1:] != chunk[:, :-1], axis=1, out=index[:, 1:])
    lanes = np.zeros((4, n, int(index.max()) + 1, 16), np.float32)
    flat = np.ravel_multi_index((ids // 16 % 4, np.arange(n)[:, None], index, ids % 16), lanes.shape)
    np.add.at(lanes.reshape(-1), flat.reshape(-1), values.reshape(-1))  # in ascending order of id
    return lanes
