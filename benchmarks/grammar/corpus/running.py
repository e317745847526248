"""Runs a collection on an engine: a process that ends when a schema takes too long or too much memory."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from .collections import Task
from .kept import CRASHED, ENDED, TIMED_OUT, Results
from .worker import STARTED

ROOT = Path(__file__).parents[3]
_STARTING = 300
"""Seconds that an engine may take to read the vocabulary."""
_PATIENCE = 30
"""How many seconds of the clock may pass for one of processor time: a process that waits uses none."""


class StartError(Exception):
    """An engine whose process does not start."""


class Bounds(NamedTuple):
    """What a task may cost.

    clock     the function of `time` that measures
    seconds   of processor time
    memory    bytes of address space of the whole process
    patience  seconds of the wall clock, after which the process is killed whatever it does
    """

    clock: str
    seconds: float
    memory: int
    patience: float

    @classmethod
    def of(cls, clock: str, seconds: float, gibibytes: int) -> Bounds:
        """With the patience that a busy machine needs."""
        return cls(clock, seconds, gibibytes << 30, _PATIENCE * seconds)


class Worker:
    """An engine's process, which is started again after it has ended.

    engine   a name in `ENGINES`
    command  starts the process; None: `worker` with the engine
    """

    def __init__(self, engine: str, bounds: Bounds, command: Sequence[str] | None = None) -> None:
        self.engine = engine
        self._bounds = bounds
        self._command = [*(command or (sys.executable, "-m", f"{__package__}.worker", engine))]
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def ask(self, task: Task) -> dict[str, Any]:
        """What the process measured of a task. Without verdicts: `error` says why the schema is refused, or
        `ended` how the process did. Raises `StartError` if it does not start."""
        if self._process is None:
            self._start()
        answer = self._asked(task)
        if ENDED in answer:
            self.close()
        return answer

    def _asked(self, task: Task) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps([task.schema, task.tests, task.options]).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._end()
        return self._answer(self._bounds.patience)

    def _start(self) -> None:
        clock, seconds, memory, _ = self._bounds
        self._process = subprocess.Popen(
            [*self._command, clock, str(seconds), str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"},
        )
        self._buffer = b""
        answer = self._answer(_STARTING)
        if STARTED not in answer:
            self.close()
            raise StartError(f"{self.engine} does not start: {' '.join(answer.values())}")

    def _answer(self, seconds: float) -> dict[str, Any]:
        """The next line as JSON, or how the process ended without one."""
        assert self._process is not None
        assert self._process.stdout is not None
        output, end = self._process.stdout, time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, end - time.monotonic())):
                    return {ENDED: TIMED_OUT, "how": "it waits"}
                data = os.read(output.fileno(), 1 << 20)
                if not data:
                    return self._end()
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> dict[str, Any]:
        """How the process ended, which it has done or is about to do: its output is closed."""
        assert self._process is not None
        status = self._process.wait()
        if status == -signal.SIGPROF:
            return {ENDED: TIMED_OUT}
        return {ENDED: CRASHED, "how": signal.Signals(-status).name if status < 0 else f"status {status}"}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):  # of a task that the process did not read
                        stream.close()
            self._process = None


def run(tasks: Iterable[Task], worker: Worker, results: Results) -> None:
    """Measure the tasks that the results do not have yet."""
    missing = [task for task in tasks if task.name not in results.done]
    try:
        for number, task in enumerate(missing, 1):
            expected = [valid for _, valid in task.tests]
            results.add({"name": task.name, "group": task.group, "expected": expected, **worker.ask(task)})
            if number % 500 == 0:
                print(f"{worker.engine}: {number} of {len(missing)}", file=sys.stderr, flush=True)
    finally:
        worker.close()
