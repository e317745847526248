"""All requests of a scheduler: which are live, which have finished, and which slots they have."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakSet

from ..base.courtesy import begin_step, end_step
from ..base.errors import INTERRUPTIONS, failure
from ..contract import StepMeasures
from ..registry import Registry
from .beam_groups import BeamGroup
from .input_batch import InputBatch
from .request import Request, RequestError
from .results import Record, RequestId, StepResult
from .slots import Slots

logger = logging.getLogger("engine_sampler")

MOST_REMOVED = 1 << 14
"""The most ids of removed requests that are remembered, to skip their rows in a step."""


class StepLock:
    """While a step runs, changes that other threads or its own plugins make wait until it ends, and a second
    step is refused. Every other method that changes a request counts as a step, too."""

    def __init__(self) -> None:
        self.lock: Any = threading.RLock()
        _STEP_LOCKS.add(self)
        self._thread: int | None = None
        """The thread on which a step runs."""
        self._pending: deque[Callable[[], None]] = deque()
        self._building: list[int] = []
        """The threads on which requests are built."""

    def __enter__(self) -> None:
        with self.lock:
            thread = threading.get_ident()
            if self._thread is not None or thread in self._building:
                inside = self._thread in (None, thread)
                raise RuntimeError(_INSIDE if inside else _MEANWHILE)
            self._begin()

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self._end()

    def _begin(self) -> None:
        self._thread = threading.get_ident()
        begin_step()

    def _end(self) -> None:
        try:
            while self._pending:
                self._do_pending(self._pending.popleft())
        finally:
            self._thread = None
            end_step()

    @property
    def running(self) -> bool:
        """Whether a step runs."""
        return self._thread is not None

    def when_idle(self, work: Callable[[], None]) -> None:
        """Do `work` now, or right after the step that is running. Called with the lock held, also by plugins
        of a request that is being built."""
        if self.running:
            self._pending.append(work)
            return
        self._begin()
        try:
            work()
        finally:
            self._end()

    def _do_pending(self, work: Callable[[], None]) -> None:
        """Do what had to wait; a failure neither stops the rest nor reaches the caller of the step."""
        try:
            work()
        except INTERRUPTIONS:
            raise
        except BaseException:
            logger.exception("a change that had waited for the end of a step failed")

    @contextmanager
    def building(self) -> Iterator[None]:
        """While a request is built on this thread, its plugins cannot start a step; other threads can."""
        thread = threading.get_ident()
        self._building.append(thread)
        try:
            yield
        finally:
            self._building.remove(thread)

    def after_fork(self) -> None:
        """In the child of a fork: refuse all calls if a thread that is not there was inside one of them."""
        thread = threading.get_ident()
        if self._thread in (None, thread) and self.lock.acquire(blocking=False):
            self.lock.release()
            self._building = [builder for builder in self._building if builder == thread]
        else:
            self.lock = _LeftBehind()


class _LeftBehind:
    """In place of the lock of a scheduler whose changes nobody finishes."""

    def acquire(self, *, blocking: bool = True) -> bool:
        return False

    def release(self) -> None:
        pass

    def __enter__(self) -> None:
        raise RuntimeError(
            "a thread of the parent was inside this scheduler when the process was forked: create another one"
        )

    def __exit__(self, *error: object) -> None:
        pass


_STEP_LOCKS: WeakSet[StepLock] = WeakSet()


def _leave_behind() -> None:
    for step_lock in list(_STEP_LOCKS):
        step_lock.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_behind)

_ALLOWED = "only add, add_group, accept, remove and look-ups are possible then"
_INSIDE = f"a plugin cannot call this in the middle of a step, or of another call: {_ALLOWED}"
_MEANWHILE = f"the scheduler is in the middle of a step, and another thread is inside it: {_ALLOWED}"


class LiveRequests:
    """The requests of a scheduler by id.

    step_lock  held in part by every method that may be called from any thread.
    known      all requests that have not been removed.
    live       those that have not finished and are not suspended, in order of arrival.
    suspended  the ids of those that `suspend` has taken out of the live ones.
    groups     the beam search of each request that belongs to one.
    """

    def __init__(self, slots: Slots, registry: Registry) -> None:
        self.slots = slots
        self.step_lock = StepLock()
        self.known: dict[RequestId, Request] = {}
        self.live: dict[RequestId, Request] = {}
        self.suspended: set[RequestId] = set()
        self.groups: dict[RequestId, BeamGroup] = {}
        self._registry = registry
        self._removed: OrderedDict[RequestId, None] = OrderedDict()
        """The ids of the requests removed last."""
        self._numbers = itertools.count()
        self._batch: InputBatch | None = None
        """The batch of the last step, while no request has joined or left."""
        self._batch_is_everyone = False

    # --- look-up ---------------------------------------------------------------------------------

    def find(self, request_id: RequestId) -> Request:
        """The request of this id, live or finished; raises `RequestError` for an unknown id."""
        try:
            return self.known[request_id]
        except KeyError:
            raise RequestError(f"request {request_id!r} is unknown") from None

    def find_live(self, request_id: RequestId) -> Request:
        """The live request of this id; raises `RequestError` if it has finished, is suspended, or waits."""
        request = self.find(request_id)
        if request_id not in self.live:
            raise RequestError(f"request {request_id!r} {self._absence(request)}")
        return request

    def _absence(self, request: Request) -> str:
        """Why a known request is not live."""
        if request.id in self.suspended:
            return "is suspended"
        if request.live:
            return "waits for its grammar, which is being compiled"
        return f"has finished ({request.finish_reason})"

    def find_suspended(self, request_id: RequestId) -> Request:
        """The suspended request of this id."""
        request = self.find(request_id)
        if request_id not in self.suspended:
            raise RequestError(f"request {request_id!r} is not suspended")
        return request

    def find_single(self, request_id: RequestId) -> Request:
        """A live request that does not belong to a beam search, and has not failed since the last step."""
        request = self.find_live(request_id)
        if not request.live:
            raise RequestError(f"request {request_id!r} has finished ({request.finish_reason})")
        if request_id in self.groups:
            raise RequestError(f"request {request_id!r} belongs to a beam search, which alone continues it")
        return request

    def batch(self, request_ids: Sequence[RequestId] | None, *, strict: bool = False) -> InputBatch:
        """The batch of these ids, default all live ones; the same object while the ids stay the same.

        Ids whose requests have left are skipped, or refused with `strict`.
        """
        with self.step_lock.lock:
            batch = self._batch
            if request_ids is None:
                if batch is None or not self._batch_is_everyone:
                    batch = self._keep(InputBatch(self.slots, [r for r in self.live.values() if r.slot >= 0]))
                    self._batch_is_everyone = True
                return batch
            ids = list(request_ids)
            if batch is None or batch.named != ids or (strict and batch.skipped):
                batch = self._keep(self._new_batch(ids, strict))
                self._batch_is_everyone = ids == list(self.live)
            return batch

    def _new_batch(self, ids: list[RequestId], strict: bool) -> InputBatch:
        if len(set(ids)) != len(ids):
            raise RequestError(f"request_ids={ids!r} names a request twice")
        requests: list[Request] = []
        skipped: list[tuple[int, Request | None]] = []
        for i, request_id in enumerate(ids):
            if request_id in self.live or strict or not self._has_left(request_id):
                requests.append(self._find_seated(request_id))
            else:
                skipped.append((i, self.known.get(request_id)))
        return InputBatch(self.slots, requests, ids, skipped)

    def _has_left(self, request_id: RequestId) -> bool:
        """Whether the request of this id has been removed or has finished."""
        request = self.known.get(request_id)
        return request_id in self._removed if request is None else not request.live

    def _find_seated(self, request_id: RequestId) -> Request:
        """A live request that has a slot."""
        request = self.find_live(request_id)
        if request.slot < 0:
            raise RequestError(f"request {request_id!r} joins after the step that is running")
        return request

    def groups_in(self, requests: Iterable[Request]) -> list[BeamGroup]:
        """The beam searches that `requests` belong to, each once."""
        groups = (self.groups.get(request.id) for request in requests) if self.groups else ()
        return list({id(group): group for group in groups if group is not None}.values())

    # --- joining ---------------------------------------------------------------------------------

    def free_id(self, request_id: RequestId | None) -> RequestId:
        """`request_id`, or a new integer; raises `RequestError` if the id is taken."""
        if request_id is None:
            return next(n for n in self._numbers if n not in self.known)
        if request_id in self.known:
            raise RequestError(f"request id {request_id!r} is taken")
        return request_id

    def add(self, requests: Sequence[Request], group: BeamGroup | None = None, *, late: bool = False) -> None:
        """Add requests, all or none; they get their slots now, or right after the step that is running. What
        prevents that is raised now as a `RequestError`; then, or if they come `late`, it ends them with
        `error`."""
        with self.step_lock.lock:
            self.take_ids(requests)
            late = late or self.step_lock.running
            try:
                for request in requests:
                    self.live[request.id] = request
                    if group is not None:
                        self.groups[request.id] = group
                self.step_lock.when_idle(partial(self._join_late if late else self._join, requests))
            except BaseException:
                for request in requests:
                    self._forget(request)
                raise
            for request in requests:
                self.notify("request_added", request.id, request.params)

    def take_ids(self, requests: Sequence[Request]) -> None:
        """Make requests known, all or none; raises `RequestError` if an id is taken."""
        with self.step_lock.lock:
            for request in requests:
                if request.id in self.known:
                    raise RequestError(f"request id {request.id!r} is taken")
            for request in requests:
                self.known[request.id] = request
            self._batch = None  # it may skip one of these ids

    def _join(self, requests: Sequence[Request]) -> None:
        """Give all of the requests their slots, or none."""
        try:
            for request in requests:
                self._give_slot(request)
        except BaseException as error:
            for request in requests:
                self._free_slot(request)
            if isinstance(error, (RequestError, MemoryError, *INTERRUPTIONS)):
                raise
            raise RequestError(failure(f"joining of request {requests[0].id!r}", error)) from error

    def _join_late(self, requests: Sequence[Request]) -> None:
        """`_join` after a step; requests that cannot join end with the reason."""
        try:
            self._join(requests)
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            for request in requests:
                request.fail(str(error))
                self.groups.pop(request.id, None)
                self.retire_if_done(request)

    def _forget(self, request: Request) -> None:
        for requests in (self.known, self.live):
            if requests.get(request.id) is request:
                del requests[request.id]
        self.groups.pop(request.id, None)

    def _give_slot(self, request: Request) -> None:
        self._batch = None
        request.slot = self.slots.put(
            request.state, request.params.given, request.seed, request.position, request.check_trigger()
        )

    # --- pausing ---------------------------------------------------------------------------------

    def suspend(self, request: Request) -> None:
        """Take the slot from a live request, and nothing else."""
        request.position = int(self.slots.positions[request.slot])
        del self.live[request.id]
        self.suspended.add(request.id)
        self._free_slot(request)

    def resume(self, request: Request) -> None:
        """Give a suspended request a slot again; it stays suspended if that fails."""
        self._join([request])
        self.suspended.remove(request.id)
        self.live[request.id] = request

    # --- leaving ---------------------------------------------------------------------------------

    def remove(self, request_id: RequestId) -> Record:
        """Forget a request; one that is live ends with `abort`, and so does its beam search."""
        with self.step_lock.lock:
            request = self.find(request_id)
            del self.known[request_id]
            self._remember_removed(request_id)
            group = self.groups.pop(request_id, None)
            was_live = self.live.pop(request_id, None) is not None
            if was_live or request_id in self.suspended:
                self.suspended.discard(request_id)
                self._batch = None
                self.step_lock.when_idle(lambda: self._abort(request))
                if group is not None:
                    self._abort_group(group)
            return request.record("abort")

    def retire_if_done(self, request: Request) -> None:
        """Take a finished request out of the live ones; its record stays."""
        if request.live:
            return
        with self.step_lock.lock:
            if self.live.get(request.id) is request:  # not if it has been removed meanwhile
                del self.live[request.id]
                self._release(request)

    def replace_group(
        self, group: BeamGroup, members: Sequence[Request], successors: Sequence[Request]
    ) -> bool:
        """Put the next texts of a beam search in the places of its members; those that have ended stay as
        records. False, and nothing changes, if the search has been aborted meanwhile."""
        with self.step_lock.lock:
            if group.aborted:
                return False
            position = int(self.slots.positions[members[0].slot]) + 1
            for request in members:
                self._free_slot(request)
            for request_id, request in zip(group.request_ids, successors, strict=True):
                request.id = request_id
                self.known[request_id] = request
                if request.live:
                    self.live[request_id] = request
                    request.position = position
                    self._give_slot(request)
                else:
                    del self.live[request_id]
                    self.groups.pop(request_id, None)
                    self._notify_finished(request)
        return True

    def _abort(self, request: Request) -> None:
        if request.live:
            request.finish("abort")
        self._release(request)

    def _abort_group(self, group: BeamGroup) -> None:
        """End a beam search after one of its requests has been removed; a step that is running leaves it
        as it was."""
        group.aborted = True
        for request_id in group.request_ids:
            self.groups.pop(request_id, None)
            request = self.live.pop(request_id, None)
            if request is not None:
                self.step_lock.when_idle(partial(self._abort, request))

    def _release(self, request: Request) -> None:
        self._free_slot(request)
        self._notify_finished(request)

    def _free_slot(self, request: Request) -> None:
        """Free the slot of a request, if it has one."""
        self._batch = None
        if request.slot >= 0:
            slot, request.slot = request.slot, -1
            self.slots.remove(slot)

    def _remember_removed(self, request_id: RequestId) -> None:
        self._removed[request_id] = None
        self._removed.move_to_end(request_id)
        if len(self._removed) > MOST_REMOVED:
            self._removed.popitem(last=False)

    # --- inside ----------------------------------------------------------------------------------

    def _notify_finished(self, request: Request) -> None:
        if self._registry.catalogue.observers:
            self.notify("request_finished", request.record())

    def notify_step(self, result: StepResult, measures: Callable[[], StepMeasures]) -> None:
        """Show the observers a copy of `result`, and its measures, which only they need."""
        if self._registry.observes("step_measured"):
            self.notify("step_measured", measures())
        if self._registry.observes("step_finished"):
            self.notify("step_finished", result.copied())

    def notify(self, event: str, *values: Any) -> None:
        """Call the observers, which cannot start a step."""
        if self._registry.catalogue.observers:
            with self.step_lock.building():
                self._registry.notify(event, *values)

    def _keep(self, batch: InputBatch) -> InputBatch:
        self._batch = batch
        return batch
