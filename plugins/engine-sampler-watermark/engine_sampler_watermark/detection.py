"""`Detection`, and the tails of the distributions by which detectors judge."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from engine_sampler import ParameterError

_REACH = 40
"""Terms of a tail count so many standard deviations behind its beginning and around the mean: a text of 10^6
tokens has tens of millions of terms."""


class Detection(NamedTuple):
    """What a detector says of a text.

    score    the sum over the tokens that count; how it is made is the detector's.
    scored   how many tokens count: those whose context occurs for the first time.
    p_value  the probability that a text without the mark has such a score, or a greater one; 1.0 if no token
             counts. A text is called marked if it is below a threshold, say 1e-6 where many texts are tried.
    """

    score: float
    scored: int
    p_value: float


def checked_ids(name: str, token_ids: Iterable[int]) -> np.ndarray:
    """`token_ids` as int64 [n]; raises `ParameterError` for anything but integers from 0 to 2^32 − 1."""
    given: Any = token_ids if isinstance(token_ids, np.ndarray) else list(token_ids)
    kinds = {*map(type, given)} if isinstance(given, list) else set()
    is_plain = all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds)
    ids = np.asarray(given if is_plain else [None])
    if ids.size == 0:
        return np.zeros(0, np.int64)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or int(ids.min()) < 0 or int(ids.max()) >= 2**32:
        raise ParameterError(f"{name} is not allowed: a list of token ids, integers from 0 to 2^32 - 1")
    return ids.astype(np.int64)


def gamma_tail(score: float, shape: int) -> float:
    """P(X ≥ score), where X is the sum of `shape` exponential variables with mean 1:
    e^−score · Σ score^k / k! for k < shape."""
    if shape == 0 or score <= 0:
        return 1.0
    k = np.arange(shape)
    factorials = np.cumsum(np.log(np.maximum(k, 1)))
    return _sum_of(k * math.log(score) - factorials - score)


def binomial_tail(successes: int, trials: int, share: float) -> float:
    """P(X ≥ successes) of `trials` independent trials that succeed with probability `share`."""
    if successes <= 0:
        return 1.0
    mean, reach = trials * share, _REACH * (1 + math.sqrt(trials * share * (1 - share)))
    first = max(successes, int(mean - reach))
    k = np.arange(first, min(trials, int(max(successes, mean) + reach)) + 1)
    ways = math.lgamma(trials + 1) - math.lgamma(first + 1) - math.lgamma(trials - first + 1)
    steps = np.log((trials - k[:-1]) / (k[:-1] + 1)) + math.log(share) - math.log1p(-share)
    begin = ways + first * math.log(share) + (trials - first) * math.log1p(-share)
    return _sum_of(begin + np.cumsum(np.concatenate(([0.0], steps))))


def _sum_of(logarithms: np.ndarray) -> float:
    """Σ e^x, at most 1."""
    peak = float(logarithms.max())
    return min(1.0, math.exp(peak) * float(np.exp(logarithms - peak).sum()))
