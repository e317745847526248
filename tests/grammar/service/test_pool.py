"""Slow jobs give way, without processes: a job takes as long as the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.service import pool as service
from engine_sampler.grammar.service.pool import Ask, Pool
from engine_sampler.grammar.service.process import GaveWay, closed

SECONDS = 60
"""Far more than any answer takes."""


class ByHand:
    """Stands for a worker: quick messages are answered at once, slow ones when the worker is closed, or given
    up when others wait."""

    def __init__(self, timeout: float) -> None:
        self.process_id = None
        self._closed = threading.Event()

    def start(self) -> None:
        pass

    def ask(self, message: str, gives_way: Callable[[], bool] = lambda: False) -> str:
        while message == "slow" and not self._closed.wait(0.001):
            if gives_way():
                raise GaveWay
        if self._closed.is_set():
            raise closed()
        return message

    def close(self) -> None:
        self._closed.set()

    def release(self) -> None:
        pass


class Asking:
    """A job that asks a worker."""

    def __init__(self, message: str) -> None:
        self.outcomes: list[Any] = []
        self.done = threading.Event()
        self._message = message

    def run(self, ask: Ask) -> None:
        try:
            self.outcomes.append(ask(self._message))
        except GrammarError as error:
            self.fail(error)
        self.done.set()

    def fail(self, error: Exception) -> None:
        self.outcomes.append(str(error))
        self.done.set()


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    monkeypatch.setattr(service, "Worker", ByHand)
    pool = Pool(1, SECONDS)
    yield pool
    pool.close()


def added(pool: Pool, message: str, client: Any = None) -> Asking:
    job = Asking(message)
    pool.put(job, job if client is None else client, needs_worker=True)
    return job


@pytest.mark.parametrize("clients", [("a", "a", "a", "b"), (None, None, None, None)])
def test_slow_jobs_give_way_to_a_neighbour(pool: Pool, clients: tuple[Any, ...]) -> None:
    slow = [added(pool, "slow", client) for client in clients[:3]]
    neighbour = added(pool, "quick", clients[3])
    assert neighbour.done.wait(SECONDS)
    assert not any(job.outcomes for job in slow)
    assert len(pool._workers) == 2  # one more, for slow jobs


def test_a_slow_job_goes_on_while_only_its_own_client_waits(pool: Pool) -> None:
    added(pool, "slow", "a")
    own = added(pool, "quick", "a")
    assert not own.done.wait(0.05)
    assert len(pool._workers) == 1
    added(pool, "quick", "b")
    assert own.done.wait(SECONDS)


def test_the_neighbour_of_a_client_that_wants_the_same_does_not_wait_for_its_slow_jobs(pool: Pool) -> None:
    added(pool, "slow", "a")
    added(pool, "slow", "a")
    popular = added(pool, "quick", "a")
    pool.join(popular, "b")
    assert popular.done.wait(SECONDS)
    assert popular.outcomes == ["quick"]


def test_closing_fails_slow_jobs_whether_they_run_or_wait(pool: Pool) -> None:
    slow = [added(pool, "slow") for _ in range(3)]
    assert added(pool, "quick").done.wait(SECONDS)
    pool.close()
    for job in slow:
        assert job.done.wait(SECONDS)
        assert job.outcomes == [str(closed())]
    with pytest.raises(RuntimeError, match="closed"):
        added(pool, "quick")
    with pytest.raises(RuntimeError, match="closed"):
        pool.join(slow[0], "b")
