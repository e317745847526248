"""A process may be forked while a thread runs steps: no call of the child hangs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, threading
import numpy as np
from tests.engines import TOKENIZER, VOCAB, alone, make_scheduler, model_row, outcome, run_to_end
from engine_sampler import RequestError, SamplingParams

params = SamplingParams(seed=1, max_tokens=4, stop=["zz"], regex="[a-z<>0-9]*", logprobs=1)
expected = outcome(alone(params, [1]))
scheduler = make_scheduler(backend=sys.argv[1], num_threads=2)
rows = np.stack([model_row([1])] * 8)
stopping = threading.Event()

def engine():
    while not stopping.is_set():
        for i in range(8):
            scheduler.add(params, [1], request_id=i)
        for _ in range(3):
            scheduler.step(rows, list(range(8)))
        for i in range(8):
            scheduler.remove(i)

def child():
    signal.alarm(60)
    for call in (
        lambda: scheduler.step(rows[: len(scheduler.request_ids)]),
        lambda: scheduler.add(params), lambda: scheduler.request_ids,
        lambda: scheduler.remove(0), lambda: scheduler.rollback(0, 1), lambda: scheduler.accept(0, [1]),
    ):
        try:
            call()
        except RuntimeError as error:
            assert "when the process was forked" in str(error), error
        except RequestError:
            pass  # the thread was between two calls, and the scheduler goes on
    plain = params.replace(regex=None)
    own = make_scheduler(backend=sys.argv[1])
    own.add(plain, [1], request_id="own")
    run_to_end(own)
    assert own.record("own").finish_reason == "length"

thread = threading.Thread(target=engine)
thread.start()
failed = 0
for _ in range(12):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            child()
            code = 0
        finally:
            os._exit(code)
    failed += os.waitpid(pid, 0)[1] != 0
assert scheduler.request_ids is not None
stopping.set()
thread.join()
sys.exit(failed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_children_forked_during_steps_neither_hang_nor_need_the_parents_scheduler(backend: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, backend], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
