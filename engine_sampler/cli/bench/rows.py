"""Rows of logits: synthetic, the same in every run, shaped like those of real models.

A peaked row is a body N(0, 2.2) and a head of 100 to 400 tokens whose logits fall by a Zipf law, as steeply
as the target entropy requires. A flat row is a body alone, wide enough for 8 nats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...arithmetic import LogitRows

VOCABULARIES = (32_000, 131_072, 151_936)
BODY_DEVIATION = 2.2
GAPS = (16.0, 24.0)
"""Range of the distance from the body's median to the best logit."""
HEADS = (100, 400)
ENTROPIES = (0.1, 3.0)
"""Range of the entropies of peaked rows in a batch, in nats."""
SINGLE_ENTROPY = 2.0
"""Entropy of the row in a batch of one."""
FLAT_ENTROPY = 8.0
FLAT_EVERY = 8
"""Every eighth row of a mixed batch is flat."""
CACHE_LINE = 64
"""Bytes."""
BREAKER, BREAKER_RANK = 13, 12
"""The token that breaks sequences for DRY, and its frequency rank in a history."""
ZIPF, PHRASES, PHRASE_SHARE = 1.25, 12, 0.15
"""A history's Zipf exponent, its number of phrases, and the share of its parts that are phrases."""


@cache
def batch(vocab_size: int, count: int, kind: str = "peaked") -> np.ndarray:
    """float32 [count, vocab_size], read-only; `kind` is "peaked", "flat" or "mixed"."""
    entropies = np.geomspace(*ENTROPIES, count) if count > 1 else np.array([SINGLE_ENTROPY])
    every = {"peaked": count + 1, "mixed": FLAT_EVERY, "flat": 1}[kind]
    rows = _aligned(np.empty((count, vocab_size), np.float32))
    for i, entropy in enumerate(entropies):
        rng = np.random.default_rng([vocab_size, count, i])
        is_flat = i % every == every - 1
        rows[i] = flat_row(vocab_size, rng) if is_flat else peaked_row(vocab_size, float(entropy), rng)
    rows.flags.writeable = False
    return rows


def as_bfloat16(logits: np.ndarray) -> LogitRows:
    """float32 `logits` truncated to bfloat16, as input of a step; NumPy has no such type."""
    bits = _aligned((logits.view(np.uint32) >> 16).astype(np.uint16))
    return LogitRows.from_bfloat16_bits(bits, bits.shape[1])


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy aligned to a cache line, as torch's tensors are; NumPy does not align its arrays."""
    buffer = np.empty(array.nbytes + CACHE_LINE, np.uint8)
    start = -buffer.ctypes.data % CACHE_LINE
    copy = buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[:] = array
    return copy


def peaked_row(vocab_size: int, entropy: float, rng: np.random.Generator) -> np.ndarray:
    """float64 [vocab_size] with this entropy in nats, set by a head of likely tokens."""
    row = rng.normal(0, BODY_DEVIATION, vocab_size)
    head = rng.permutation(vocab_size)[: min(rng.integers(*HEADS), vocab_size // 4)]
    row[head] = -np.inf
    fall = np.log(np.arange(1, len(head) + 1))
    body = _log_mass(row)

    def entropy_at(steepness: float, gap: float) -> float:
        return _entropy(gap - steepness * fall, body)

    gap = rng.uniform(*GAPS)
    while entropy_at(_STEEPEST, gap) > entropy:  # the body alone exceeds it, so it must weigh less
        gap = rng.uniform(gap, GAPS[1])
    steepness = _bisect(lambda x: entropy_at(x, gap) > entropy, 0.0, _STEEPEST)
    row[head] = np.maximum(gap - steepness * fall, rng.normal(0, BODY_DEVIATION, len(head)))
    return row


def flat_row(vocab_size: int, rng: np.random.Generator) -> np.ndarray:
    """float64 [vocab_size] of `FLAT_ENTROPY` nats."""
    body = rng.normal(0, 1, vocab_size)
    deviation = _bisect(lambda x: entropy_of(x * body) > FLAT_ENTROPY, 0.0, 8.0)
    return deviation * body


def history(vocab_size: int, length: int) -> list[int]:
    """Token ids that resemble a text: words by a Zipf law, and a few recurring phrases."""
    rng = np.random.default_rng([vocab_size, length])
    words = rng.permutation(vocab_size)
    words[BREAKER_RANK] = BREAKER

    def text(count: Any) -> np.ndarray:
        return words[rng.zipf(ZIPF, count) % vocab_size]

    phrases = [text(size) for size in rng.integers(4, 12, PHRASES)]
    parts = [
        phrases[rng.integers(PHRASES)] if rng.random() < PHRASE_SHARE else text(rng.integers(4, 24))
        for _ in range(length // 4)
    ]
    ids: list[int] = np.concatenate(parts)[:length].tolist()
    return ids


def periodic(period: int, length: int) -> list[int]:
    """Token ids that repeat with this period."""
    return [100 + i % period for i in range(length)]


def entropy_of(row: np.ndarray) -> float:
    """The entropy of a row's distribution, in nats."""
    return _entropy(row, None)


_STEEPEST = 24.0
_LogMass = tuple[float, float]
"""ln of the sum of weights, and the mean logit under them."""


def _log_mass(logits: np.ndarray) -> _LogMass:
    peak = logits.max()
    weights = np.exp(logits - peak)
    total = weights.sum()
    alive = weights > 0
    return float(peak + np.log(total)), float((weights[alive] * logits[alive]).sum() / total)


def _entropy(logits: np.ndarray, rest: _LogMass | None) -> float:
    """The entropy of `logits` and the rest of the row together: ln of the total minus the mean logit."""
    parts = [_log_mass(logits)] + ([rest] if rest else [])
    log_masses, means = np.array(parts).T
    total, _ = _log_mass(log_masses)
    shares = np.exp(log_masses - total)
    return float(total - (shares * means).sum())


def _bisect(too_low: Callable[[float], bool], low: float, high: float) -> float:
    """The point at which `too_low` turns from true to false."""
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if too_low(middle) else (low, middle)
    return (low + high) / 2
