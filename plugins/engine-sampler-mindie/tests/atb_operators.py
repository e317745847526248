"""Operators of every type with valid tensors, and float64 definitions of what they draw from."""

from __future__ import annotations

from typing import Any

import numpy as np
from engine_sampler_mindie import atb as atb

SINGLE, MULTINOMIAL, EXPONENTIAL, MULTINOMIAL_LOGPROBS, EXPONENTIAL_LOGPROBS = (
    atb.TopkToppLogprobsSamplingType(i) for i in range(5)
)

FOUR = (0.5, 0.3, 0.15, 0.05)


def probabilities(random: np.random.Generator, rows: int, vocab: int, spread: float = 2.0) -> np.ndarray:
    """Softmax rows in float16."""
    weights = np.exp(random.normal(0, spread, (rows, vocab)))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float16)


def column(values: Any, dtype: Any) -> np.ndarray:
    return np.asarray(values, dtype).reshape(-1, 1)


def order(p: np.ndarray) -> np.ndarray:
    return np.lexsort((np.arange(len(p)), -p.astype(np.float64)))


def bfloat16_values(p: np.ndarray) -> np.ndarray:
    """`p` truncated to bfloat16, as float32."""
    return (p.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


INPUTS = {
    SINGLE: ["probs", "topp"],
    MULTINOMIAL: ["probs", "topk", "topp"],
    EXPONENTIAL: ["probs", "topk", "topp", "exp"],
    MULTINOMIAL_LOGPROBS: ["probs", "topk", "topp", "rand"],
    EXPONENTIAL_LOGPROBS: ["probs", "topk", "topp", "exp"],
}

WIDE = [
    (kind, vocab)
    for kind in (SINGLE, MULTINOMIAL, EXPONENTIAL)
    for vocab in (32_000, 65_024, 92_367, 100_352, 128_000, 158_464, 182_744, 254_208)
]
