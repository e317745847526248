"""Scalar functions of the contract: log2, 2^x and powers in float64, the same on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np

LOG2_TERMS = tuple(2.8853900817779268 / (2 * k + 1) for k in range(11))
"""log2(m) = 2/ln2 · s·(1 + s²/3 + s⁴/5 + …) with s = (m − 1)/(m + 1), |s| ≤ 0.1716: its factors."""


EXP2_TERMS = (
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
"""2^r = Σ (r·ln2)^k / k!, |r| ≤ 1/2: its factors."""


SQRT_HALF = 0.7071067811865476
"""`log2_64` doubles a mantissa below this, so that it lies near 1."""


def log2_64(x: Any) -> np.ndarray:
    """log2 of positive finite `x`, float64; error below 4 units in the last place."""
    m, e = np.frexp(np.asarray(x, np.float64))
    small = m < SQRT_HALF
    m = np.where(small, m + m, m)
    e = e - small
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    series = np.full_like(s, LOG2_TERMS[-1])
    for term in LOG2_TERMS[-2::-1]:
        series *= square
        series += term
    return np.asarray(e + s * series)


def exp2_64(x: Any) -> np.ndarray:
    """2^x for finite `x`, float64, clamped to 2^±1022; error below 4 units in the last place."""
    x = np.clip(np.asarray(x, np.float64), -1022.0, 1022.0)
    n = np.rint(x)
    r = x - n
    series = np.full_like(r, EXP2_TERMS[-1])
    for term in EXP2_TERMS[-2::-1]:
        series = series * r + term
    return np.asarray(np.ldexp(series, n.astype(np.int32)))


def power(x: Any, exponent: Any) -> np.ndarray:
    """x^exponent = exp2_64(exponent·log2_64(x)) for x ≥ 0.

    0^0 = 1; 0^e = 0 for e > 0 and 2^1022, the upper limit of `exp2_64`, for e < 0.
    """
    x = np.asarray(x, np.float64)
    positive = x > 0
    result = exp2_64(exponent * log2_64(np.where(positive, x, 1.0)))
    at_zero = np.where(np.less(exponent, 0), 2.0**1022, np.equal(exponent, 0))
    return np.where(positive, result, at_zero)
