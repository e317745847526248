"""Shared helpers of mirostat's tests: rows, the tokens it may draw, and the paper's k with libm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from engine_sampler.arithmetic import distances, weights
from engine_sampler.samplers.mirostat import SurpriseControl
from engine_sampler.testing import make_rows


def rows_of_all_kinds(seed: int, n: int, m: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, m)) * rng.uniform(0.2, 6, (n, 1))
    zipf = -rng.uniform(0.3, 3, (n, 1)) * np.log(np.arange(1, m + 1)) + rng.normal(size=(n, m)) * 0.05
    rows[::2] = rng.permuted(zipf, axis=1)[::2]
    return rows.astype(np.float32)


def kept(
    selector: SurpriseControl, logits: np.ndarray, params: Mapping[str, Any], vocab_size: int = 0
) -> np.ndarray:
    """bool [n, m]: the tokens of float32 `logits` [n, m] that `selector` may draw."""
    y = distances(logits)
    rows = make_rows(selector, [params] * len(logits), vocab_size or logits.shape[1])
    return selector.keep(logits, y, weights(y), rows) & (logits > -np.inf)


def reference_k(p: np.ndarray, mu: float, vocab_size: int, m: int = 100) -> float:
    """Mirostat's k before rounding, with natural logarithms, for probabilities in descending order."""
    t = [math.log((i + 2) / (i + 1)) for i in range(min(m, len(p)) - 1)]
    b = [math.log(p[i] / p[i + 1]) for i in range(min(m, len(p)) - 1)]
    s = sum(x * y for x, y in zip(t, b, strict=True)) / sum(x * x for x in t)
    epsilon = s - 1
    return ((epsilon * 2**mu) / (1 - vocab_size ** (-epsilon))) ** (1 / s)
