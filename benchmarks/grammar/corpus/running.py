"""Runs a collection on an engine: a process that ends when a schema takes too long or too much memory."""

from __future__ import annotations

import json
import os
import resource
import selectors
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .collections import Task

ROOT = Path(__file__).parents[3]
_STARTING = 300
"""Seconds that an engine may take to read the vocabulary."""


class Worker:
    """An engine's process. `ask` gives its answer, or an error if it did not survive the task.

    engine, clock       a name in `ENGINES`, and in `time`
    seconds, gibibytes  for a task, and of address space
    """

    def __init__(self, engine: str, clock: str, seconds: float, gibibytes: int) -> None:
        self.engine = engine
        self._clock, self._seconds, self._gibibytes = clock, seconds, gibibytes
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self.restarts = 0

    def ask(self, task: Task) -> dict[str, Any]:
        """What the worker measured of a task."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps([task.schema, task.tests]).encode() + b"\n")
            process.stdin.flush()
            answer = self._line(self._seconds)
        except BrokenPipeError:
            answer = "died"
        if isinstance(answer, str):
            self.close()
            self.restarts += 1
            return {"error": f"{answer}: {self.engine}", "failed": int(self._seconds * 1e9)}
        return answer

    def _start(self) -> None:
        bytes_ = self._gibibytes << 30
        environment = os.environ | {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker", self.engine, self._clock],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=environment,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_)),
        )
        self._buffer = b""
        if isinstance(answer := self._line(_STARTING), str):
            self.close()
            raise SystemExit(f"{self.engine} does not start: {answer}")

    def _line(self, seconds: float) -> Any:
        """The next line as JSON; "timeout" or "died" without one."""
        assert self._process is not None
        assert self._process.stdout is not None
        output, end = self._process.stdout, time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, end - time.monotonic())):
                    return "timeout"
                data = os.read(output.fileno(), 1 << 20)
                if not data:
                    return "died"
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def run(tasks: Iterable[Task], worker: Worker, path: Path) -> None:
    """Measure all tasks, a line of JSON for each in the file at `path`."""
    with path.open("w", encoding="utf-8") as file:
        for number, task in enumerate(tasks):
            answer = worker.ask(task)
            expected = [valid for _, valid in task.tests]
            line = {"name": task.name, "group": task.group, "expected": expected, **answer}
            file.write(json.dumps(line) + "\n")
            if number % 500 == 499:
                print(f"{worker.engine}: {number + 1} schemas", file=sys.stderr, flush=True)
    worker.close()


def read_results(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of results."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
