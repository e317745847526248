"""How long a step takes: on the NPU, and with all logits copied to the host."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine_sampler import SamplingParams, Scheduler

from .arrays import BFLOAT16, Place, rounded

CHAINS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "top_k 40, top_p 0.95, temperature 0.8": {"top_k": 40, "top_p": 0.95, "temperature": 0.8},
}


def table(
    backends: Sequence[tuple[str, Any]],
    place: Place,
    rows: Sequence[int],
    vocab_size: int,
    repeats: int,
    form: str = BFLOAT16,
) -> list[dict[str, Any]]:
    """One line for each chain and number of rows: the median microseconds of a whole step on each of
    `backends` (name, backend), and of `begin` alone, in which the host is busy. Logits are of type `form`."""
    lines = []
    for chain, settings in CHAINS.items():
        for n in rows:
            logits = place(_logits(n, vocab_size, form))
            line: dict[str, Any] = {"chain": chain, "rows": n}
            for name, backend in backends:
                whole, begun = _times(backend, settings, logits, n, vocab_size, repeats)
                line |= {f"{name}, µs": round(whole * 1e6), f"{name} begin, µs": round(begun * 1e6)}
            lines.append(line)
    return lines


def _logits(rows: int, vocab_size: int, form: str) -> np.ndarray:
    return rounded(np.random.default_rng(rows).normal(0, 3, (rows, vocab_size)).astype(np.float32), form)


def _times(
    backend: Any, settings: dict[str, Any], logits: Any, rows: int, vocab_size: int, repeats: int
) -> tuple[float, float]:
    """(seconds of a step, seconds of its first half), medians."""
    scheduler = Scheduler(vocab_size, backend=backend)
    for seed in range(rows):
        scheduler.add(SamplingParams(seed=seed, **settings), [1, 2, 3])
    wholes, begins = [], []
    for _ in range(repeats + 3):
        started = time.perf_counter()
        begun = scheduler.begin(logits)
        begins.append(time.perf_counter() - started)
        begun.finish()
        wholes.append(time.perf_counter() - started)
    return statistics.median(wholes[3:]), statistics.median(begins[3:])
