"""The arithmetic contract, in NumPy: same logits, parameters, history, seed and position give the
same token on every exact backend, for any batch, thread count and SIMD width.

This docstring is the specification; another exact backend computes the same, bit for bit.

General
    Between samplers the state is the float32 row, nothing wider. Elementwise steps are single IEEE
    operations in the order written: no fused multiply-add, no fast-math, no flush-to-zero
    (`require_ieee` probes). A sampler computes the same on any ascending subset of ids that holds
    all surviving ones: deleting −inf columns changes nothing.
    No libm, no float sum in library order steers a token. Scalars use `log2_64` and `exp2_64`: a
    bit split and a fixed float64 Horner polynomial; pow(x, e) = exp2_64(e·log2_64(x)).
    A raw row with NaN, +inf or a logit above 2^100 is a row error; a logit below −2^100 reads as
    −inf. Finite edits clamp to ±FLT_MAX (`settle`); every transform skips −inf. Order and equality
    of logits ignore the sign of zero. Ties: logit descending, then id ascending, everywhere.

Weights (`distances`, `weights`)
    y = (l − max)·float32(log2 e). y < −31: weight 0. n = rint(y) to nearest even; r = y − n.
    p = ((c5·r + c4)·r² + (c3·r + c2))·r² + (c1·r + c0), wf = p·2^(n+30), w = rint(wf), an integer.
    Sums of weights are integers, so blocks, lanes, threads and shards do not matter. A token below
    2^−31 of the likeliest has weight 0 and is never drawn; total variation from the real softmax
    is at most V·2^−31 + 1e−6.
    Weights are not monotone in l to the last unit: weight cuts keep the longest prefix in (logit
    desc, id asc) order that passes (`keep_heavy` in `ranking`).
    Mass thresholds have an absolute slack of 2^−20 (`mass_reaching`, `mass_within`), weight
    thresholds a relative one, so that exact boundaries do not hang on rounding.

Entropy (`information`, `log2_mass`)
    d = −y bits; u = rint(float32(w·d)), 0 where w = 0; S = Σw, E = Σu as int64,
    L = log2_64(S) − 30; entropy H = L + E/S bits.

Random numbers (`philox4x32`, `draw64`)
    Philox4x32-10. key = [seed low, seed high]; counter = [draw, stream, position low, position
    high]; r = x0 | x1 << 32. position = len(prompt) + len(output), the index of the token being
    drawn. stream = 0 for the selector; for a sampler the first four little-endian bytes of
    sha256(name), 0 becoming 1. The drawn token is the first surviving id, ascending, whose
    cumulative weight exceeds (r·S) >> 64. A coin with probability q shows heads if
    (r >> 11) < q·2^53. Child i ≥ 1 of a group of n has seed Philox(seed, [i, 0xFFFFFFFF, 0, 0]).

Rules of single samplers stand in their own docstrings.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

FLT_MAX = np.finfo(np.float32).max
LOGIT_LIMIT = np.float32(2.0**100)
LOG2_E = np.float32(1.4426950408889634)
LN_2 = 0.6931471805599453
ONE_WEIGHT = 1 << 30
"""The weight of the likeliest token."""
LOWEST_BITS = np.float32(-31)
"""Tokens further below the maximum, in bits, have weight 0."""
MASS_SLACK = 2.0**-20
GREEDY_BELOW = 1e-4
"""Temperatures below this choose the best token."""

_LONG = 1 << 14
"""Rows of so many tokens are worth a look at which of them weigh anything."""

# 2^r on [−1/2, 1/2], relative error 2.2e−7.
_C0, _C1, _C2, _C3, _C4, _C5 = (
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


def require_ieee() -> None:
    """Raise RuntimeError if this process flushes denormals to zero, which would change tokens."""
    tiny = np.array([1e-40, 1e-310], np.float64)
    if np.float32(tiny[0]) * np.float32(1) == 0 or tiny[1] / 2 == 0:
        raise RuntimeError("denormal numbers are flushed to zero in this process (FTZ/DAZ is set)")


# --- elementwise edits ---------------------------------------------------------------------------


def settle(values: np.ndarray, alive: np.ndarray | None = None) -> np.ndarray:
    """Clamp float32 `values` to ±FLT_MAX in place.

    `alive` is the mask of tokens that were finite before the edit: an edit that overflows to −inf
    settles at −FLT_MAX, a removed token stays removed. An edit that cannot overflow downwards
    needs no mask.
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
    """w = rint(2^(y + 30)) as int64, 0 where y < −31, for float32 distances `y` of any shape."""
    if y.size >= _LONG:
        heavy = y >= LOWEST_BITS
        if 3 * np.count_nonzero(heavy) < y.size:  # most tokens of a peaked row weigh nothing
            sparse = np.zeros(y.size, np.int64)
            columns = np.flatnonzero(heavy)  # boolean indexing takes four times as long
            sparse[columns] = _dense_weights(y.ravel()[columns])
            return sparse.reshape(y.shape)
    return _dense_weights(y)


def _dense_weights(y: np.ndarray) -> np.ndarray:
    clamped = np.maximum(y, LOWEST_BITS)  # 2^−1 there, which rounds to 0
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
    exponent += 157  # 30, and the bias 127
    exponent <<= 23
    p *= exponent.view(np.float32)
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
    """H = L + E/S in bits for each row of distances `y` [n, m], float64 [n]; `w` if at hand."""
    w = weights(y) if w is None else w
    total = w.sum(axis=1)
    return log2_mass(total) + information(w, y).sum(axis=1) / total


def mass_reaching(p: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The least weight that counts as reaching share `p`: max(1, ceil((p − 2^−20)·S)), int64 [n]."""
    return np.maximum(1, np.ceil((p - MASS_SLACK) * total).astype(np.int64))


def mass_within(p: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The greatest weight that does not exceed share `p`: floor((p + 2^−20)·S), int64 [n]."""
    return np.floor((p + MASS_SLACK) * total).astype(np.int64)


def weight_of_share(x: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The least weight of a token with probability `x`: ceil(x·(1 − 2^−20)·S), int64 [n]."""
    need = np.ceil(np.minimum(x, 2.0) * (1.0 - MASS_SLACK) * total)
    return need.astype(np.int64)


# --- scalars -------------------------------------------------------------------------------------

# log2(m) = 2/ln2 · s·(1 + s²/3 + s⁴/5 + …) with s = (m − 1)/(m + 1), |s| ≤ 0.1716.
_LOG2_TERMS = tuple(2.8853900817779268 / (2 * k + 1) for k in range(11))
# 2^r = Σ (r·ln2)^k / k!, |r| ≤ 1/2.
_EXP2_TERMS = (
    1.0,
    0.6931471805599453,
    0.24022650695910072,
    0.05550410866482158,
    0.009618129107628477,
    0.0013333558146428443,
    0.0001540353039338161,
    1.5252733804059841e-05,
    1.3215486790144309e-06,
    1.01780860092397e-07,
    7.054911620801123e-09,
    4.4455382718708114e-10,
    2.5678435993488206e-11,
    1.3691488853904128e-12,
    6.778726354822545e-14,
)
_SQRT_HALF = 0.7071067811865476


def log2_64(x: Any) -> np.ndarray:
    """log2 of positive finite `x`, float64; error below 4 units in the last place."""
    m, e = np.frexp(np.asarray(x, np.float64))
    small = m < _SQRT_HALF
    m = np.where(small, m + m, m)
    e = e - small
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    series = np.full_like(s, _LOG2_TERMS[-1])
    for term in _LOG2_TERMS[-2::-1]:
        series = series * square + term
    return np.asarray(e + s * series)


def exp2_64(x: Any) -> np.ndarray:
    """2^x for finite `x`, float64, clamped to 2^±1022; error below 4 units in the last place."""
    x = np.clip(np.asarray(x, np.float64), -1022.0, 1022.0)
    n = np.rint(x)
    r = x - n
    series = np.full_like(r, _EXP2_TERMS[-1])
    for term in _EXP2_TERMS[-2::-1]:
        series = series * r + term
    return np.asarray(np.ldexp(series, n.astype(np.int32)))


def power(x: Any, exponent: Any) -> np.ndarray:
    """x^exponent = exp2_64(exponent·log2_64(x)) for x ≥ 0.

    0^0 = 1, 0^e = 0 for e > 0, and 2^1022 for e < 0, where `exp2_64` ends.
    """
    x = np.asarray(x, np.float64)
    positive = x > 0
    result = exp2_64(exponent * log2_64(np.where(positive, x, 1.0)))
    at_zero = np.where(np.less(exponent, 0), 2.0**1022, np.equal(exponent, 0))
    return np.where(positive, result, at_zero)


# --- random numbers ------------------------------------------------------------------------------

_MASK32 = 0xFFFFFFFF
SELECTOR_STREAM = 0
_CHILD_STREAM = 0xFFFFFFFF
_SMALL = 8
"""Below so many rows Python's integers are faster than NumPy's arrays; both give the same numbers."""


def philox4x32(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any]) -> tuple[Any, ...]:
    """Philox4x32-10 (Salmon et al. 2011). Words are Python ints, or uint64 arrays holding 32 bits."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a = c0 * 0xD2511F53
        b = c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & _MASK32, (a >> 32) ^ c3 ^ k1, a & _MASK32
        k0 = (k0 + 0x9E3779B9) & _MASK32
        k1 = (k1 + 0xBB67AE85) & _MASK32
    return c0, c1, c2, c3


def draw64(seed: np.ndarray, position: np.ndarray, stream: int, draw: int = 0) -> np.ndarray:
    """64 random bits for each row: uint64 [n] from uint64 `seed` [n] and int64 `position` [n]."""
    if len(seed) < _SMALL:
        pairs = zip(seed.tolist(), position.tolist(), strict=True)
        return np.array([_draw_words(s, p, stream, draw) for s, p in pairs], np.uint64)
    drawn: np.ndarray = _draw_words(seed, position.astype(np.uint64), stream, draw)
    return drawn


def child_seed(seed: int, index: int) -> int:
    """The seed of sibling `index` of a group: `seed` itself for 0, a Philox word pair for others."""
    return seed if index == 0 else int(_draw_words(seed, 0, _CHILD_STREAM, index))


def _draw_words(seed: Any, position: Any, stream: int, draw: int) -> Any:
    counter = (seed * 0 + draw, stream, position & _MASK32, position >> 32)
    x0, x1, _, _ = philox4x32(counter, (seed & _MASK32, seed >> 32))
    return x0 | x1 << 32


def stream_of(name: str) -> int:
    """The random stream of a sampler: the first four bytes of sha256(name), 0 becoming 1."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little") or 1


def scale_draw(r: np.ndarray, total: np.ndarray) -> np.ndarray:
    """(r·S) >> 64 as int64 [n], for uint64 `r` and totals `S` below 2^63."""
    products = (a * b for a, b in zip(r.tolist(), total.tolist(), strict=True))
    return np.array([product >> 64 for product in products], np.int64)


def coin(r: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """bool [n]: (r >> 11) < q·2^53."""
    return (r >> np.uint64(11)).astype(np.float64) < probability * 2.0**53


def pick_by_weight(w: np.ndarray, r: np.ndarray) -> np.ndarray:
    """The first column whose cumulative weight exceeds (r·S) >> 64: int64 [n] for `w` [n, m]."""
    target = scale_draw(r, w.sum(axis=1))
    n, m = w.shape
    if m <= _BLOCK:
        return _first_above(w, target)
    # Two levels, so that the long cumulative sum is over blocks only; integers add up alike.
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
