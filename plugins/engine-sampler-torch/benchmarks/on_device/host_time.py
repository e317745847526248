"""The host's part of a step: what `Scheduler.step` takes beside waiting for the device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from engine_sampler_torch.running import transfer

from .movement import CHAIN, stepped

ROWS, VOCAB = 64, 131_072
STEPS, WARM_UP = 300, 50
BAR = 60
"""The time to reach with the default chain, in µs."""

CASES: dict[str, dict[str, Any]] = {
    "default chain": CHAIN,
    "greedy": {"temperature": 0.0},
    "penalties": CHAIN | {"repetition_penalty": 1.1, "frequency_penalty": 0.2},
}


def host_times(device: str, rows: int = ROWS, vocab_size: int = VOCAB) -> dict[str, float]:
    """For each case the median of a step in µs, launches included, without what it waits for the kernels."""
    with torch.inference_mode():
        return {name: _host_time(device, rows, vocab_size, chain) for name, chain in CASES.items()}


def _host_time(device: str, rows: int, vocab_size: int, chain: dict[str, Any]) -> float:
    scheduler, logits = stepped(device, rows, vocab_size, chain)
    spans = []
    with waiting_timed() as waiting:
        for _ in range(WARM_UP + STEPS):
            waiting.seconds, start = 0.0, time.perf_counter()
            scheduler.step(logits)
            spans.append(time.perf_counter() - start - waiting.seconds)
    return 1e6 * statistics.median(spans[WARM_UP:])


@contextmanager
def waiting_timed() -> Iterator[Waiting]:
    """How long steps wait for the device, while the context lasts."""
    waiting = Waiting(transfer.wait)
    with mock.patch.object(transfer, "wait", waiting):
        yield waiting


class Waiting:
    """`transfer.wait`, with the seconds it took."""

    def __init__(self, wait: Callable[[transfer.StreamEvent], None]) -> None:
        self.seconds = 0.0
        self._wait = wait

    def __call__(self, done: transfer.StreamEvent) -> None:
        start = time.perf_counter()
        self._wait(done)
        self.seconds += time.perf_counter() - start
