"""Weights: integers instead of softmax probabilities, so that sums do not depend on their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from .philox import scale_draw
from .scalars import log2_64

FLT_MAX = np.finfo(np.float32).max
"""The greatest float32, to which finite edits clamp."""
LOGIT_LIMIT = np.float32(2.0**100)
"""A logit above this is a fault; one below its negative reads as −inf."""
LOG2_E = np.float32(1.4426950408889634)
"""Bits in a nat, float32: from logits to distances."""
LN_2 = 0.6931471805599453
"""Nats in a bit, float64."""
ONE_WEIGHT = 1 << 30
"""The weight of the likeliest token."""
LOWEST_BITS = np.float32(-31)
"""In bits relative to the maximum; tokens below this have weight 0."""
MASS_SLACK = 2.0**-20
"""The absolute slack of mass thresholds, so that exact boundaries do not hang on rounding."""
GREEDY_BELOW = 1e-4
"""At temperatures below this, the best token is chosen."""

_SPARSE_SIZE = 1 << 14
"""From this many distances on, it pays to check first how many have a weight above 0."""

WEIGHT_TERMS = tuple(
    np.float32(c)
    for c in (
        1.0,
        6.931470036506653e-1,
        2.4022242426872253e-1,
        5.550733581185341e-2,
        9.671512991189957e-3,
        1.326472731307149e-3,
    )
)
"""c0 … c5: 2^r on [−1/2, 1/2], relative error 2.2e−7."""

_C0, _C1, _C2, _C3, _C4, _C5 = (np.float32(ONE_WEIGHT) * c for c in WEIGHT_TERMS)


def require_ieee() -> None:
    """Raise RuntimeError if this process flushes denormals to zero, which would change tokens."""
    tiny = np.array([1e-40, 1e-310], np.float64)
    if np.float32(tiny[0]) * np.float32(1) == 0 or tiny[1] / 2 == 0:
        raise RuntimeError("denormal numbers are flushed to zero in this process (FTZ/DAZ is set)")


# --- elementwise edits ---------------------------------------------------------------------------


def settle(values: np.ndarray, alive: np.ndarray | None = None) -> np.ndarray:
    """Clamp float32 `values` to ±FLT_MAX in place.

    `alive` masks the tokens that were finite before the edit: an edit that overflows to −inf becomes
    −FLT_MAX, and a removed token stays removed. An edit that cannot overflow downwards needs no mask.
    """
    np.minimum(values, FLT_MAX, out=values)
    if alive is not None:
        np.maximum(values, -FLT_MAX, out=values, where=alive)
    return values


# --- weights -------------------------------------------------------------------------------------


def distances(logits: np.ndarray) -> np.ndarray:
    """y = (l − max)·log2 e in float32, in bits below each row's maximum; shape of `logits` [n, m]."""
    peak = logits.max(axis=1, keepdims=True)
    y = np.subtract(logits, peak)
    np.multiply(y, LOG2_E, out=y)
    return y


def weights(y: np.ndarray) -> np.ndarray:
    """w = rint(2^(y + 30)) as int64, 0 where y < −31, for float32 distances `y` of any shape.

    They are those of `distances`, at most 0: `weights(distances(logits))`. Raises ValueError for others, such
    as logits themselves, or distances with the other sign.
    """
    if y.size >= _SPARSE_SIZE:
        heavy = y >= LOWEST_BITS
        if 3 * np.count_nonzero(heavy) < y.size:  # most tokens of a peaked row weigh nothing
            sparse = np.zeros(y.size, np.int64)
            columns = np.flatnonzero(heavy)  # boolean indexing takes four times as long
            sparse[columns] = _dense_weights(y.ravel()[columns])
            return sparse.reshape(y.shape)
    return _dense_weights(y)


def _dense_weights(y: np.ndarray) -> np.ndarray:
    if y.size and y.max() > 0:
        raise ValueError(
            f"y={y.max():g} is not allowed: a distance is at most 0, as in weights(distances(logits))"
        )
    clamped = np.maximum(y, LOWEST_BITS)  # where the result is 2^−1, which rounds to 0
    n = np.rint(clamped)
    r = np.subtract(clamped, n, out=clamped)
    p = r * _C5
    p += _C4
    square = r * r
    p *= square
    low = r * _C3
    low += _C2
    p += low
    p *= square
    np.multiply(r, _C1, out=low)
    low += _C0
    p += low
    exponent = n.astype(np.int32)
    exponent <<= 23
    bits = p.view(np.int32)
    bits += exponent  # times 2^n; the terms are those of 2^(r + 30)
    np.rint(p, out=p)
    return p.astype(np.int64)


def information(w: np.ndarray, y: np.ndarray) -> np.ndarray:
    """u = rint(float32(w·d)) as int64 with d = −y, and 0 where w = 0."""
    product = w.astype(np.float32)
    product *= -np.maximum(y, LOWEST_BITS)
    return np.rint(product, out=product).astype(np.int64)


def log2_mass(total: Any) -> np.ndarray:
    """L = log2_64(S) − 30: log2 of the mass relative to the likeliest token, float64."""
    return log2_64(total) - 30.0


def entropy_bits(y: np.ndarray, w: np.ndarray | None = None) -> np.ndarray:
    """H = L + E/S in bits for each row of distances `y` [n, m], float64 [n]; `w`: their weights, if known."""
    w = weights(y) if w is None else w
    total = w.sum(axis=1)
    return log2_mass(total) + information(w, y).sum(axis=1) / total


def mass_reaching(p: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The smallest weight that counts as reaching share `p`: max(1, ceil((p − 2^−20)·S)), int64 [n]."""
    return np.maximum(1, np.ceil((p - MASS_SLACK) * total).astype(np.int64))


def mass_within(p: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The largest weight that does not exceed share `p`: floor((p + 2^−20)·S), int64 [n]."""
    return np.floor((p + MASS_SLACK) * total).astype(np.int64)


def weight_of_share(x: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The smallest weight of a token with probability `x`: ceil(x·(1 − 2^−20)·S), int64 [n]."""
    need = np.ceil(np.minimum(x, 2.0) * (1.0 - MASS_SLACK) * total)
    return need.astype(np.int64)


# --- drawing -------------------------------------------------------------------------------------


def pick_by_weight(w: np.ndarray, r: np.ndarray) -> np.ndarray:
    """The first column whose cumulative weight exceeds (r·S) >> 64: int64 [n] for `w` [n, m]."""
    target = scale_draw(r, w.sum(axis=1))
    n, m = w.shape
    if m <= _BLOCK:
        return _first_above(w, target)
    # Two levels, so that the long cumulative sum covers blocks only; sums of integers do not differ.
    blocks = np.add.reduceat(w, np.arange(0, m, _BLOCK), axis=1)
    chosen = np.empty(n, np.int64)
    for i in range(n):
        before = blocks[i].cumsum()
        block = int(np.searchsorted(before, target[i], side="right"))
        rest = target[i] - (before[block - 1] if block else 0)
        part = w[i, block * _BLOCK : (block + 1) * _BLOCK]
        chosen[i] = block * _BLOCK + np.searchsorted(part.cumsum(), rest, side="right")
    return chosen


_BLOCK = 1024


def _first_above(w: np.ndarray, target: np.ndarray) -> np.ndarray:
    return (w.cumsum(axis=1) <= target[:, None]).sum(axis=1)
