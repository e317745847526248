"""The time that logprobs add to a step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine_sampler import Scheduler
from engine_sampler.cli.bench import rows
from engine_sampler.contract import LOGPROBS_KINDS

from .cases import MAIN, TINY, Shape, params_of
from .measure import Work, measure
from .results import STEP

REQUESTS = 64
TOP_N = 5


def _stepper(case: str, logits: np.ndarray, **parameters: object) -> Callable[[], object]:
    scheduler = Scheduler(logits.shape[1])
    for seed in range(REQUESTS):
        params = params_of(case).replace(seed=seed, **parameters)
        scheduler.add(params, rows.history(logits.shape[1], 64))
    return lambda: scheduler.step(logits)


@pytest.mark.parametrize("mode", LOGPROBS_KINDS)
@pytest.mark.parametrize("case", ["default chain", "temperature"])
@pytest.mark.parametrize("vocab", [TINY, MAIN])
def bench_step_with_logprobs(benchmark, vocab, case, mode):
    logits = np.random.default_rng(0).normal(0, 2.2, (REQUESTS, vocab)).astype(np.float32)
    without = Work(_stepper(case, logits))
    reporting = Work(_stepper(case, logits, logprobs=TOP_N, logprobs_mode=mode))
    shape = Shape(f"{case}, {mode} logprobs", vocab, REQUESTS)
    measure(benchmark, reporting, STEP, shape, {"without": without})
