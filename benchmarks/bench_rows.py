"""Rows after their chains, and rows without a scheduler: relative to a step, and to a copy of the logits."""

from __future__ import annotations

import numpy as np
import pytest

from engine_sampler import process_logits, sample
from engine_sampler.cli.bench import rows

from .cases import CONTEXT, MAIN, Shape, params_of
from .engines import Engine
from .measure import Work, measure
from .results import COPY, PROCESS, PROCESS_LOGITS, SAMPLE, STEP

SHAPES = [
    Shape(case, MAIN, batch)
    for case in ("default chain", "penalties, DRY, default chain", "top_p")
    for batch in (1, 16, 64)
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def bench_process(benchmark, shape):
    engine, logits = Engine.of(shape), logits_of(shape)
    work = Work(lambda: engine.scheduler.process(logits))
    measure(benchmark, work, PROCESS, shape, {STEP: engine.step, COPY: Work(logits.copy)})


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("series", "call"), [(SAMPLE, sample), (PROCESS_LOGITS, process_logits)])
def bench_single_calls(benchmark, series, call, shape):
    logits, params = logits_of(shape), params_of(shape.case)
    output = [rows.history(shape.vocab_size, CONTEXT)] * shape.batch
    work = Work(lambda: call(logits, params, output_token_ids=output))
    measure(benchmark, work, series, shape, {STEP: Engine.of(shape).step, COPY: Work(logits.copy)})


def logits_of(shape: Shape) -> np.ndarray:
    return rows.batch(shape.vocab_size, shape.batch, shape.rows)
