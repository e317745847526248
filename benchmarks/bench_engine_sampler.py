"""This library: a backend's run of one row, whole steps, and the work around them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import numpy as np
import pytest

from engine_sampler import process_logits, sample
from engine_sampler.cli.bench import rows

from .cases import (
    ALONE,
    CONTEXT,
    GREEDY_DRY,
    HALVED,
    MAIN,
    MIXTURE,
    NUMPY_STEPS,
    PROMPTS,
    SMALL,
    STEPS,
    THREADED,
    TINY,
    Shape,
    params_of,
)
from .engines import Engine, reading
from .measure import Work, measure
from .results import (
    ADD_AND_REMOVE,
    COPY,
    FIVE,
    HALF,
    JOIN,
    LEAVE,
    NUMPY_RUN,
    NUMPY_STEP,
    PROCESS,
    PROCESS_LOGITS,
    RUN,
    SAMPLE,
    SETTINGS,
    STEP,
    periodic,
    prompt_of,
    threads,
)

LIVE = 63
"""Live requests while another is added and removed."""
BUSY_LOOP = "import os; os.sched_setaffinity(0, {0})\nwhile True: pass"


def passes(shape: Shape) -> dict[str, Work]:
    """The pass over the rows of `shape`, as a yardstick."""
    return {"pass": reading(rows.batch(shape.vocab_size, shape.batch, shape.rows))}


@pytest.mark.parametrize("shape", ALONE, ids=str)
def bench_run(benchmark, shape):
    measure(benchmark, Engine.of(shape).run, RUN, shape, passes(shape))


@pytest.mark.parametrize("shape", ALONE, ids=str)
def bench_run_of_numpy(benchmark, shape):
    yardsticks = {"run": Engine.of(shape).run}
    measure(benchmark, Engine.of(shape, native=False).run, NUMPY_RUN, shape, yardsticks)


@pytest.mark.parametrize("shape", STEPS, ids=str)
def bench_step(benchmark, shape):
    measure(benchmark, Engine.of(shape).step, STEP, shape, passes(shape))


@pytest.mark.parametrize("shape", NUMPY_STEPS, ids=str)
def bench_step_of_numpy(benchmark, shape):
    yardsticks = {"step": Engine.of(shape).step}
    measure(benchmark, Engine.of(shape, native=False).step, NUMPY_STEP, shape, yardsticks)


@pytest.mark.parametrize("vocab_size", [SMALL, MAIN])
@pytest.mark.parametrize("case", HALVED)
def bench_step_of_bfloat16(benchmark, case, vocab_size):
    shape = Shape(case, vocab_size, 64)
    logits, history = rows.batch(vocab_size, 64), rows.history(vocab_size, CONTEXT)
    halved = Engine([case], rows.as_bfloat16(logits), vocab_size, history)
    measure(benchmark, halved.step, HALF, shape, {"float32": Engine.of(shape).step})


@pytest.mark.benchmark(timer=perf_counter)  # processor time counts both threads
@pytest.mark.parametrize("busy", [False, True], ids=["free", "busy"])
@pytest.mark.parametrize("vocab_size", [SMALL, MAIN])
@pytest.mark.parametrize("case", THREADED)
def bench_step_of_two_threads(benchmark, case, vocab_size, busy):
    shape = Shape(case, vocab_size, 64)
    with two_cores(busy):
        one, two = (Engine.of(shape, num_threads=n).step for n in (1, 2))
        measure(benchmark, two, threads(busy), shape, {"one": one})


@contextmanager
def two_cores(busy: bool) -> Iterator[None]:
    """Run this process on two cores, one of which is also busy with other work if `busy`."""
    if not hasattr(os, "sched_setaffinity") or (os.cpu_count() or 1) < 2:
        pytest.skip("this needs two cores")
    before = os.sched_getaffinity(0)
    other = subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) if busy else None
    os.sched_setaffinity(0, {0, 1})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        if other is not None:
            other.kill()
            other.wait()


@pytest.mark.parametrize("period", [1, 16])
@pytest.mark.parametrize("vocab_size", [SMALL, MAIN])
def bench_dry(benchmark, vocab_size, period):
    logits, history = rows.batch(vocab_size, 1), rows.periodic(period, CONTEXT)
    cases = GREEDY_DRY, "greedy"
    with_dry, without = (Engine([case], logits, vocab_size, history, grows=True).run for case in cases)
    measure(benchmark, with_dry, RUN, Shape(periodic(period), vocab_size), {"greedy": without})


@pytest.mark.parametrize("vocab_size", [TINY, SMALL, MAIN])
def bench_step_of_five_configurations(benchmark, vocab_size):
    engine = Engine(MIXTURE, rows.batch(vocab_size, 64), vocab_size)
    yardsticks = {"run": engine.run, "kernels": engine.kernels}
    measure(benchmark, engine.step, STEP, Shape(FIVE, vocab_size, 64), yardsticks)


@pytest.mark.parametrize("case", ["default chain", "penalties, DRY, default chain"])
def bench_add_and_remove(benchmark, case):
    scheduler = Engine.of(Shape(case, batch=LIVE)).scheduler
    params, prompt = params_of(case), rows.history(MAIN, CONTEXT)

    def add_and_remove():
        scheduler.remove(scheduler.add(params, prompt))

    measure(benchmark, Work(add_and_remove), STEP, Shape(f"{ADD_AND_REMOVE}{case}"))


@pytest.mark.parametrize("kind", ["array", "list"])
@pytest.mark.parametrize("length", PROMPTS)
@pytest.mark.parametrize("series", [JOIN, LEAVE])
def bench_join_and_leave(benchmark, series, length, kind):
    scheduler = Engine.of(Shape("default chain", batch=LIVE)).scheduler
    params, listed = params_of("default chain"), rows.history(MAIN, length)
    prompt = np.array(listed) if kind == "array" else listed

    def leave():
        scheduler.remove("joining")

    def leave_if_there():
        if scheduler.request_ids[-1] == "joining":
            leave()

    def join():
        scheduler.add(params, prompt, request_id="joining")

    def join_if_away():
        if scheduler.request_ids[-1] != "joining":
            join()

    work = Work(join, leave_if_there) if series == JOIN else Work(leave, join_if_away)
    conversion = {"conversion": Work(lambda: np.array(listed))}
    measure(benchmark, work, series, Shape(prompt_of(length, kind)), conversion)
    leave_if_there()


def bench_params(benchmark):
    measure(benchmark, Work(lambda: params_of("default chain")), STEP, Shape(SETTINGS))


# --- rows without a choice, and without a scheduler ------------------------------------------------

ROWS = [
    Shape(case, MAIN, batch)
    for case in ("default chain", "penalties, DRY, default chain", "top_p")
    for batch in (1, 16, 64)
]


@pytest.mark.parametrize("shape", ROWS, ids=str)
def bench_process(benchmark, shape):
    engine, logits = Engine.of(shape), logits_of(shape)
    work = Work(lambda: engine.scheduler.process(logits))
    measure(benchmark, work, PROCESS, shape, {STEP: engine.step, COPY: Work(logits.copy)})


@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize(("series", "call"), [(SAMPLE, sample), (PROCESS_LOGITS, process_logits)])
def bench_single_calls(benchmark, series, call, shape):
    logits, params = logits_of(shape), params_of(shape.case)
    output = [rows.history(shape.vocab_size, CONTEXT)] * shape.batch
    work = Work(lambda: call(logits, params, output_token_ids=output))
    measure(benchmark, work, series, shape, {STEP: Engine.of(shape).step, COPY: Work(logits.copy)})


def logits_of(shape: Shape) -> np.ndarray:
    return rows.batch(shape.vocab_size, shape.batch, shape.rows)
