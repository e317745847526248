"""This library: whole steps, the backend's share of them, and what surrounds them."""

from __future__ import annotations

import pytest

from engine_sampler import Scheduler
from engine_sampler.backends.host import NumpyBackend
from engine_sampler.contract import Batch

from . import rows
from .cases import (
    ADD_AND_REMOVE,
    CONTEXT,
    FLAT,
    MAIN,
    MIXED_STEP,
    OURS,
    SETTINGS,
    TINY,
    params_of,
)
from .measure import measure

SHAPES = [(*shape, False) for shape in OURS] + [(*shape, True) for shape in FLAT]
JOINED = 63
"""Requests that are there while another joins and leaves."""
MIXED = ("greedy", "min_p", "default chain", "top_n_sigma", "temperature")


class KeepingBackend(NumpyBackend):
    """The NumPy backend; `batch` is the last one that it ran."""

    batch: Batch

    def run(self, batch: Batch) -> None:
        self.batch = batch
        super().run(batch)


def filled(case: str, vocab_size: int, batch: int, backend: NumpyBackend) -> Scheduler:
    """A scheduler with `batch` requests of one case, each with a history."""
    scheduler = Scheduler(vocab_size, backend=backend)
    for _ in range(batch):
        scheduler.add(params_of(case), rows.history(vocab_size, CONTEXT))
    return scheduler


@pytest.mark.parametrize(("vocab_size", "batch", "case", "flat"), SHAPES)
def bench_step(benchmark, vocab_size, batch, case, flat):
    logits = rows.batch(vocab_size, batch, flat=flat)
    scheduler = filled(case, vocab_size, batch, NumpyBackend())
    labels = {"case": case, "vocab_size": vocab_size, "batch": batch, "flat": flat}
    measure(benchmark, lambda: scheduler.step(logits), "engine-sampler", **labels)


@pytest.mark.parametrize(("vocab_size", "batch", "case"), [s for s in OURS if s[0] == MAIN])
def bench_backend(benchmark, vocab_size, batch, case):
    backend = KeepingBackend()
    filled(case, vocab_size, batch, backend).step(rows.batch(vocab_size, batch))
    labels = {"case": case, "vocab_size": vocab_size, "batch": batch}
    measure(benchmark, lambda: backend.run(backend.batch), "backend", **labels)


def bench_step_of_mixed_requests(benchmark):
    scheduler = Scheduler(TINY, backend=NumpyBackend())
    for i in range(64):
        scheduler.add(params_of(MIXED[i % len(MIXED)]))
    logits = rows.batch(TINY, 64)
    labels = {"case": MIXED_STEP, "vocab_size": TINY, "batch": 64}
    measure(benchmark, lambda: scheduler.step(logits), "engine-sampler", **labels)


@pytest.mark.parametrize("case", ["default chain", "penalties, DRY, default chain"])
def bench_add_and_remove(benchmark, case):
    scheduler = filled(case, MAIN, JOINED, NumpyBackend())
    params, prompt = params_of(case), rows.history(MAIN, CONTEXT)

    def join_and_leave():
        scheduler.remove(scheduler.add(params, prompt))

    labels = {"case": f"{ADD_AND_REMOVE}{case}", "vocab_size": MAIN, "batch": 1}
    measure(benchmark, join_and_leave, "engine-sampler", **labels)


def bench_params(benchmark):
    labels = {"case": SETTINGS, "vocab_size": MAIN, "batch": 1}
    measure(benchmark, lambda: params_of("default chain"), "engine-sampler", **labels)
