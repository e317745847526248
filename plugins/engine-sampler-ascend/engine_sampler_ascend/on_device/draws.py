"""What CANN's operators draw: again the same with the same seeds, and as often as the softmax says."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.contract import Backend

from .arrays import Place

LARGEST = 60.0
"""More than chi-square with 9 degrees of freedom exceeds in one of 10^8 cases."""

_NOTHING_CUT: dict[str, Any] = {"top_k": 100, "top_p": 0.9999, "min_p": 0.0001}
"""All of the operator's cuts are on, and leave every token."""

_WEIGHTS = np.array([30, 20, 14, 10, 8, 6, 5, 4, 2, 1], np.float64)


def draw(backend: Backend, place: Place, draws: int, vocab_size: int = 1024) -> dict[str, Any]:
    """Draw one token for each of `draws` seeds from a row of ten tokens.

    `chi_square` compares their counts with the softmax; `is_repeated` says whether the same seeds gave the
    same tokens, `passed` whether all is well.
    """
    row = np.full(vocab_size, -np.inf, np.float32)
    places = np.random.default_rng(1).permutation(vocab_size)[: len(_WEIGHTS)]
    row[places] = np.log(_WEIGHTS)
    logits = np.tile(row, (draws, 1))
    first, again = (_tokens(backend, place, logits) for _ in range(2))
    counts = np.array([(first == token).sum() for token in places])
    expected = draws * _WEIGHTS / _WEIGHTS.sum()
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    is_repeated = bool((first == again).all())
    passed = is_repeated and int(counts.sum()) == draws and chi_square < LARGEST
    return {"draws": draws, "chi_square": round(chi_square, 1), "is_repeated": is_repeated, "passed": passed}


def _tokens(backend: Backend, place: Place, logits: np.ndarray) -> np.ndarray:
    scheduler = Scheduler(logits.shape[1], backend=backend)
    for seed in range(len(logits)):
        scheduler.add(SamplingParams(seed=seed, order="vllm", **_NOTHING_CUT), [1])
    tokens: np.ndarray = scheduler.step(place(logits)).token_ids
    return tokens
