"""The processes of a `GrammarCompiler`, and the threads of this process that wait for them."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from ...base.forking import fork_safe
from ..errors import GrammarError
from .process import GaveWay, Worker, closed
from .turns import ClientTurns

_JOIN_SECONDS = 1.0
"""How long closing waits for a thread that is compiling in this process."""

Ask = Callable[[Any], Any]
"""Sends a message to a worker and returns its answer."""


class Job(Protocol):
    """What a thread of the pool does."""

    def run(self, ask: Ask) -> None:
        """Do it; raises only `GaveWay`, which `ask` raises: then it will run again."""

    def fail(self, error: Exception) -> None:
        """Give it up because of `error`."""


class Pool:
    """Runs jobs, each with a worker of its own; one more thread runs those that need none.

    The workers start at once. A job that takes long while those of other clients wait gives way: it begins
    again in one more worker, which starts then and runs such jobs to their end.
    """

    def __init__(self, processes: int, timeout: float) -> None:
        self._timeout = timeout
        self._owner = os.getpid()
        self._lock = fork_safe(threading.RLock())
        self._closed = False
        self._local: ClientTurns[Job] = ClientTurns()
        self._remote: ClientTurns[Job] = ClientTurns()
        self._slow: ClientTurns[Job] = ClientTurns()
        self._workers: list[Worker] = []
        self._slow_worker: Worker | None = None
        self._threads: list[threading.Thread] = []
        self._serve(self._local, None)
        for _ in range(processes):
            self._serve(self._remote, self._new_worker())

    @property
    def process_ids(self) -> list[int]:
        """The ids of the running workers."""
        return [worker.process_id for worker in self._workers if worker.process_id is not None]

    def put(self, job: Job, client: Hashable, *, needs_worker: bool) -> None:
        """Run `job` when it has its turn. Raises RuntimeError after `close`."""
        if not (self._remote if needs_worker else self._local).put(job, client):
            raise RuntimeError("the grammar compiler is closed")

    def join(self, job: Job, client: Hashable) -> None:
        """Run `job` also when `client` has a turn, if it still waits. Raises RuntimeError after `close`."""
        if self._closed:
            raise RuntimeError("the grammar compiler is closed")
        for turns in (self._local, self._remote, self._slow):
            turns.join(job, client)

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
        for turns in (self._local, self._remote, self._slow):
            for job in turns.close():
                job.fail(closed())
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_JOIN_SECONDS)
        for worker in self._workers:
            worker.release()

    def _new_worker(self) -> Worker:
        self._workers.append(Worker(self._timeout))
        return self._workers[-1]

    def _serve(self, turns: ClientTurns[Job], worker: Worker | None) -> None:
        """Start a thread that runs the jobs that have their turns."""
        thread = threading.Thread(
            target=self._run, args=(turns, worker), daemon=True, name="grammar compiler"
        )
        self._threads.append(thread)
        thread.start()

    def _run(self, turns: ClientTurns[Job], worker: Worker | None) -> None:
        if worker is not None:
            with contextlib.suppress(GrammarError):  # the first job reports it
                worker.start()
        while (turn := turns.take()) is not None:
            begin = time.monotonic()
            try:
                turn.job.run(_no_worker if worker is None else self._asking(worker, turns, turn.client))
            except GaveWay:
                self._put_aside(turn.job, turn.client)
            turns.end(turn, time.monotonic() - begin)

    def _asking(self, worker: Worker, turns: ClientTurns[Job], client: Hashable) -> Ask:
        if turns is self._slow:
            return worker.ask
        return lambda message: worker.ask(message, lambda: turns.others_wait(client))

    def _put_aside(self, job: Job, client: Hashable) -> None:
        """Let a job that has given way begin again among those that are slow."""
        with self._lock:
            if self._slow_worker is None and not self._closed:
                self._slow_worker = self._new_worker()
                self._serve(self._slow, self._slow_worker)
        if not self._slow.put(job, client):
            job.fail(closed())


def _no_worker(message: Any) -> Any:
    raise AssertionError("this job needs no worker")
