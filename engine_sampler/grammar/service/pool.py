"""The processes of a `GrammarCompiler`, and the threads of this process that wait for them."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from ...base.forking import fork_safe
from ..errors import GrammarError, GrammarLimitError
from . import wire

_START = """
import json, os, sys
answers = os.dup(1)
os.dup2(2, 1)
sys.path[:] = json.loads(sys.argv[1])
from engine_sampler.grammar.service.worker import main
main(answers)
"""
"""The program of a worker; what modules and grammars print goes to standard error, not among the answers."""

_JOIN_SECONDS = 1.0
"""How long closing waits for a thread that is compiling in this process."""

Ask = Callable[[Any], Any]
"""Sends a message to a worker and returns its answer."""


class Job(Protocol):
    """What a thread of the pool does."""

    def run(self, ask: Ask) -> None:
        """Do it; raises nothing."""

    def fail(self, error: Exception) -> None:
        """Give it up because of `error`."""


class Worker:
    """A process that answers one message at a time; a new one takes its place when it has ended.

    timeout  seconds that an answer may take, the start of the process included.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        self._closed = self._asked = self._late = False

    @property
    def process_id(self) -> int | None:
        """The id of the process; None before it has been started."""
        process = self._process
        return None if process is None else process.pid

    def start(self) -> subprocess.Popen[bytes]:
        """The process, newly started if there is none. Raises GrammarError if it cannot be started."""
        with self._lock:
            if self._closed:
                raise _closed()
            if self._process is None or self._process.poll() is not None:
                self._discard()
                self._process = _start()
            return self._process

    def ask(self, message: Any) -> Any:
        """The process's answer to `message`.

        Raises GrammarLimitError if it takes too long, and GrammarError if the process ends; the next message
        goes to a new one. Raises what `wire.encode` raises.
        """
        parts = wire.encode(message)
        process = self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        self._asked, self._late = True, False
        timer = threading.Timer(self._timeout, self._expire, (process,))
        timer.daemon = True
        timer.start()
        try:
            wire.send(process.stdin.fileno(), parts)
            return wire.receive(process.stdout.fileno())
        except Exception as error:  # whatever comes out of a broken pipe
            process.kill()
            raise self._loss(process.wait(), error) from error
        finally:
            timer.cancel()
            with self._lock:
                self._asked = False

    def close(self) -> None:
        """End the process; an `ask` that waits for it raises."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def release(self) -> None:
        """Close the pipes of an ended process, once nobody reads from them any more."""
        with self._lock:
            self._discard()

    def _expire(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            if self._asked:
                self._late = True
                process.kill()

    def _loss(self, code: int, error: Exception) -> Exception:
        if self._closed:
            return _closed()
        if self._late:
            return GrammarLimitError(f"compiling takes more than {self._timeout:g} seconds, the limit")
        if isinstance(error, (EOFError, OSError)):
            return GrammarError(f"the process that compiled the grammar ended with exit code {code}")
        return GrammarError(f"the process that compiled the grammar gave no grammar: {error}")

    def _discard(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None


class Pool:
    """Runs jobs, each with a worker of its own; one more thread runs those that need none.

    The workers start at once.
    """

    def __init__(self, processes: int, timeout: float) -> None:
        self._workers = [Worker(timeout) for _ in range(processes)]
        self._owner = os.getpid()
        self._lock = fork_safe(threading.RLock())
        self._closed = False
        self._remote: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._local: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=_serve, args=args, daemon=True, name="grammar compiler")
            for args in [(self._local, None), *((self._remote, worker) for worker in self._workers)]
        ]
        for thread in self._threads:
            thread.start()

    @property
    def process_ids(self) -> list[int]:
        """The ids of the running workers."""
        return [worker.process_id for worker in self._workers if worker.process_id is not None]

    def put(self, job: Job, *, needs_worker: bool) -> None:
        """Run `job` when a thread is free. Raises RuntimeError after `close`."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the grammar compiler is closed")
            (self._remote if needs_worker else self._local).put(job)

    def check_process(self) -> None:
        """Raise RuntimeError in a forked process, which has neither the threads nor the workers."""
        if os.getpid() != self._owner:
            raise RuntimeError("the grammar compiler belongs to the process that this one was forked from")

    def close(self) -> None:
        """End the workers; jobs that have not finished fail. A second call does nothing."""
        with self._lock:
            if self._closed or os.getpid() != self._owner:
                return
            self._closed = True
        for worker in self._workers:
            worker.close()
        for jobs in (self._remote, self._local):
            _drain(jobs)
            for _ in self._threads:
                jobs.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_JOIN_SECONDS)
        for worker in self._workers:
            worker.release()


def _serve(jobs: queue.SimpleQueue[Job | None], worker: Worker | None) -> None:
    if worker is not None:
        with contextlib.suppress(GrammarError):  # the first job reports it
            worker.start()
    while (job := jobs.get()) is not None:
        job.run(_no_worker if worker is None else worker.ask)


def _no_worker(message: Any) -> Any:
    raise AssertionError("this job needs no worker")


def _drain(jobs: queue.SimpleQueue[Job | None]) -> None:
    while True:
        try:
            job = jobs.get_nowait()
        except queue.Empty:
            return
        if job is not None:
            job.fail(_closed())


def _closed() -> GrammarError:
    return GrammarError("the grammar compiler has been closed")


def _start() -> subprocess.Popen[bytes]:
    """A new worker. It finds modules where this process does, but does not import this process's `__main__`,
    and it is not in the terminal's foreground, so that Ctrl-C reaches the engine only."""
    from multiprocessing import spawn  # only here: it loads a dozen modules

    paths = [os.path.abspath(path) for path in sys.path if isinstance(path, str)]
    executable = os.fsdecode(spawn.get_executable() or "python3")
    try:
        return subprocess.Popen(
            [executable, "-I", "-c", _START, json.dumps(paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise GrammarError(f"the process that compiles grammars could not be started: {error}") from error
