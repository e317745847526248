"""The requests of a scheduler whose grammars are being compiled: known, but not stepped yet."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...base.errors import INTERRUPTIONS
from ...contract import Vocabulary
from ...contract.constraints import PendingConstraint
from ...requests.constraint import Constraint
from ...requests.request import Request
from ...requests.results import RequestId
from ..beam_groups import BeamGroup
from .joining import Newcomers, Siblings
from .live_requests import LiveRequests


@dataclass(eq=False)
class Arrival:
    """Requests that wait for one grammar.

    requests  the newcomers as they are until they are built with their matchers.
    is_ready  whether the grammar is compiled, or has failed: to ask the future takes a lock that is Python's
              own, and that an interruption could leave held.
    """

    compilation: PendingConstraint
    newcomers: Newcomers
    requests: Sequence[Request]
    group: BeamGroup | None
    is_ready: bool = False


class WaitingRequests:
    """The requests that wait for their grammars, in order of arrival.

    Their ids are taken and their records can be read, but they are not among the live ones: `start_ready`
    puts them there. One whose grammar cannot be compiled starts, too: its matcher fails, so the next step
    ends it with the reason, like any grammar that fails.
    """

    def __init__(self, requests: LiveRequests, vocabulary: Vocabulary) -> None:
        self._requests = requests
        self._vocabulary = vocabulary
        self._lock = requests.step_lock
        self._arrivals: list[Arrival] = []
        self._wakers: list[Any] = []
        """A lock for each thread that waits, released when a grammar is compiled or not needed
        any more. An interruption can leave none of them held for others."""

    @property
    def ids(self) -> list[RequestId]:
        """The ids of the waiting requests."""
        with self._lock.lock:
            return [r.id for arrival in self._arrivals for r in arrival.requests if self._is_known(r)]

    def add(
        self,
        compilation: PendingConstraint,
        newcomers: Newcomers,
        on_ready: Callable[[], Any] | None,
    ) -> None:
        """Add the newcomers, once the grammar is compiled; `on_ready` is called then. Raises what building
        them raises for a fault of any other part."""
        try:
            with self._lock.building():
                requests, group = newcomers.build_without_grammar()
            arrival = Arrival(compilation, newcomers, requests, group)
        except BaseException:
            compilation.future.cancel()
            raise
        try:
            with self._lock.lock:
                self._requests.take_ids(arrival.requests)
                self._arrivals.append(arrival)
            compilation.future.add_done_callback(partial(self._notify, arrival))
            if on_ready is not None:
                compilation.future.add_done_callback(lambda future: future.cancelled() or on_ready())
        except BaseException:
            with self._lock.lock:
                if arrival in self._arrivals:
                    self._arrivals.remove(arrival)
                self._requests.forget(arrival.requests)
            compilation.future.cancel()
            raise

    def start_ready(self) -> None:
        """Start the requests whose grammars are compiled, now or right after the step that is running."""
        if not self._arrivals:
            return
        with self._lock.lock:
            for arrival in list(self._arrivals):
                if arrival.is_ready:
                    self._lock.when_idle(partial(self._start, arrival))

    def wait(self, timeout: float | None) -> bool:
        """Wait until one of them can start; False if none does within `timeout` seconds, or none waits."""
        until = None if timeout is None else time.monotonic() + timeout
        waker = threading.Lock()
        waker.acquire()
        self._wakers.append(waker)
        try:
            while self._arrivals and not self._can_start():
                left = -1 if until is None else min(max(until - time.monotonic(), 0), threading.TIMEOUT_MAX)
                if not waker.acquire(timeout=left):
                    break
        finally:
            self._wakers.remove(waker)
        return self._can_start()

    def drop_removed(self) -> None:
        """Forget the arrivals whose requests have all been removed, and beam searches that have lost one."""
        if not self._arrivals:
            return
        with self._lock.lock:
            for arrival in list(self._arrivals):
                left = [request for request in arrival.requests if self._is_known(request)]
                if len(left) == len(arrival.requests) or (left and arrival.group is None):
                    continue
                self._arrivals.remove(arrival)
                arrival.compilation.future.cancel()
                for request in left:
                    request.finish("abort")

    # --- inside ----------------------------------------------------------------------------------

    def _notify(self, arrival: Arrival, future: Any) -> None:
        arrival.is_ready = True
        for waker in list(self._wakers):
            with contextlib.suppress(RuntimeError):  # it is awake
                waker.release()

    def _can_start(self) -> bool:
        """Whether a grammar has been compiled, or has failed; takes no lock."""
        return any(arrival.is_ready for arrival in list(self._arrivals))

    def _is_known(self, request: Request) -> bool:
        """Whether a waiting request has not been removed."""
        return self._requests.known.get(request.id) is request

    def _start(self, arrival: Arrival) -> None:
        if arrival not in self._arrivals:
            return  # it has started, or has been removed
        requests, group = self._built(arrival)
        if arrival not in self._arrivals:
            return  # one of its own plugins has removed it
        wanted = [self._is_known(request) for request in arrival.requests]
        starting = [request for request, known in zip(requests, wanted, strict=True) if known]
        waiting = [request for request, known in zip(arrival.requests, wanted, strict=True) if known]
        self._lock.if_interrupted(partial(self._wait_again, arrival, waiting, starting))
        self._arrivals.remove(arrival)
        self._requests.forget(waiting)
        self._requests.add(starting, group, late=True)

    def _wait_again(self, arrival: Arrival, waiting: Sequence[Request], starting: Sequence[Request]) -> None:
        """Let an arrival wait whose start was interrupted."""
        self._requests.forget(starting)
        for request in waiting:
            self._requests.known[request.id] = request
        if arrival not in self._arrivals:
            self._arrivals.insert(0, arrival)

    def _built(self, arrival: Arrival) -> Siblings:
        """The requests with their matchers, or with one that reports why there is none."""
        try:
            with self._lock.building():
                return arrival.newcomers.build(arrival.compilation.matcher(self._vocabulary))
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            for request in arrival.requests:
                request.constrain(Constraint(_FailedMatcher(error), self._vocabulary.size, has_eos=True))
            return arrival.requests, arrival.group


class _FailedMatcher:
    """Stands for the matcher of a grammar that could not be compiled: raises the error when it is used."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def fill_bitmask(self, bitmask: Any, row: int = 0) -> None:
        raise self._error

    def accept(self, token_id: int) -> bool:
        raise self._error

    def forced_tokens(self) -> list[int]:
        raise self._error

    def is_accepting(self) -> bool:
        return False

    def is_terminated(self) -> bool:
        return False

    def rollback(self, n: int) -> None:
        """Nothing has been accepted."""

    def fork(self) -> _FailedMatcher:
        return self
