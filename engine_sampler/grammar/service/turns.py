"""Jobs of several clients, and whose turn is next: one client's slow jobs do not hold up those of others."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ...base.forking import fork_safe

Job = TypeVar("Job")


@dataclass(frozen=True, eq=False)
class Turn(Generic[Job]):
    """A job that may run now, and the client whose turn it is."""

    job: Job
    client: Hashable


@dataclass(eq=False)
class _Client(Generic[Job]):
    """A client with jobs that wait or run.

    seconds   that its jobs have taken, beside those that others had taken before it came
    running   how many of them run
    waiting   those that wait, in order
    """

    seconds: float
    running: int = 0
    waiting: dict[Job, int] = field(default_factory=dict)


class ClientTurns(Generic[Job]):
    """Jobs that wait. The next turn is that of the client of whose jobs the fewest run; of several, the one
    whose jobs have taken the least time; then the one whose job came first.

    A job may wait for several clients: the first turn of any of them is the job's. What a client has used is
    forgotten when it has no jobs any more, and a client that comes starts with what the last one that had a
    turn has used, so nobody saves up turns.
    """

    def __init__(self) -> None:
        # An RLock: whoever closes may be called by the collector, while the thread holds it.
        self._changed = threading.Condition(fork_safe(threading.RLock()))
        self._clients: dict[Hashable, _Client[Job]] = {}
        self._waiting_for: dict[Job, set[Hashable]] = {}
        self._used = 0.0
        self._count = 0
        self._closed = False

    def put(self, job: Job, client: Hashable) -> bool:
        """Let a job wait for its turn; False after `close`."""
        with self._changed:
            if self._closed:
                return False
            self._waiting_for[job] = set()
            self.join(job, client)
            self._changed.notify()
            return True

    def join(self, job: Job, client: Hashable) -> None:
        """Let a job wait for the turn of one more client, if it still waits."""
        with self._changed:
            clients = self._waiting_for.get(job)
            if clients is not None and client not in clients:
                clients.add(client)
                own = self._clients.setdefault(client, _Client(self._used))
                self._count += 1
                own.waiting[job] = self._count

    def take(self) -> Turn[Job] | None:
        """The next turn, once there is one; None after `close`. `end` it."""
        with self._changed:
            while not self._waiting_for and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            name, client = min(
                ((name, one) for name, one in self._clients.items() if one.waiting), key=_place
            )
            job = next(iter(client.waiting))
            client.running += 1
            self._used = client.seconds
            for other in self._waiting_for.pop(job):
                del self._clients[other].waiting[job]
                self._forget_idle(other)
            return Turn(job, name)

    def end(self, turn: Turn[Job], seconds: float) -> None:
        """A turn has ended, after so many seconds."""
        with self._changed:
            client = self._clients[turn.client]
            client.running -= 1
            client.seconds += seconds
            self._forget_idle(turn.client)

    def others_wait(self, client: Hashable) -> bool:
        """Whether another client waits for a turn."""
        with self._changed:
            return any(name != client and one.waiting for name, one in self._clients.items())

    def close(self) -> list[Job]:
        """Give no more turns; returns the jobs that have waited."""
        with self._changed:
            self._closed = True
            jobs = list(self._waiting_for)
            self._waiting_for.clear()
            self._changed.notify_all()
            return jobs

    def _forget_idle(self, name: Hashable) -> None:
        client = self._clients[name]
        if not client.running and not client.waiting:
            del self._clients[name]


def _place(named: tuple[Hashable, _Client[Job]]) -> tuple[int, float, int]:
    client = named[1]
    return client.running, client.seconds, next(iter(client.waiting.values()))
