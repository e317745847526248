"""All requests of a scheduler: which are live, which have finished, and which slots they have."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ..registry import Registry
from .beam_groups import BeamGroup
from .input_batch import InputBatch
from .request import Request, RequestError
from .results import Record, RequestId
from .slots import Slots

logger = logging.getLogger("engine_sampler")


class StepLock:
    """While a step runs, changes that other threads make wait until it ends."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._running = False
        self._pending: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        with self.lock:
            self._running = True

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self._running = False
            pending, self._pending = self._pending, []
            for work in pending:
                work()

    def when_idle(self, work: Callable[[], None]) -> None:
        """Do `work` now, or right after the step that is running. Called with the lock held."""
        if self._running:
            self._pending.append(work)
        else:
            work()


class LiveRequests:
    """The requests of a scheduler by id.

    step_lock  held in part by every method that may be called from any thread.
    known      all requests that have not been removed.
    live       those that have not finished, in order of arrival.
    groups     the beam search of each request that belongs to one.
    """

    def __init__(self, slots: Slots, registry: Registry) -> None:
        self.slots = slots
        self.step_lock = StepLock()
        self.known: dict[RequestId, Request] = {}
        self.live: dict[RequestId, Request] = {}
        self.groups: dict[RequestId, BeamGroup] = {}
        self._registry = registry
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
        """The live request of this id; raises `RequestError` if it has finished, or waits for its grammar."""
        request = self.find(request_id)
        if request_id not in self.live:
            if request.live:
                raise RequestError(f"request {request_id!r} waits for its grammar, which is being compiled")
            raise RequestError(f"request {request_id!r} has finished ({request.finish_reason})")
        return request

    def find_single(self, request_id: RequestId) -> Request:
        """A live request that does not belong to a beam search, and has not failed since the last step."""
        request = self.find_live(request_id)
        if not request.live:
            raise RequestError(f"request {request_id!r} has finished ({request.finish_reason})")
        if request_id in self.groups:
            raise RequestError(f"request {request_id!r} belongs to a beam search, which alone continues it")
        return request

    def batch(self, request_ids: Sequence[RequestId] | None) -> InputBatch:
        """The batch of these ids, default all live ones; the same object while the ids stay the same."""
        with self.step_lock.lock:
            batch = self._batch
            if request_ids is None:
                if batch is None or not self._batch_is_everyone:
                    batch = self._keep([r for r in self.live.values() if r.slot >= 0], True)
                return batch
            ids = list(request_ids)
            if batch is None or batch.ids != ids:
                if len(set(ids)) != len(ids):
                    raise RequestError(f"request_ids={ids!r} names a request twice")
                batch = self._keep([self.find_live(r) for r in ids], ids == list(self.live))
            return batch

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

    def add(self, requests: Sequence[Request], group: BeamGroup | None = None) -> None:
        """Add requests, all or none; they get their slots now, or right after the step that is running."""
        with self.step_lock.lock:
            self.take_ids(requests)
            for request in requests:
                self.live[request.id] = request
                if group is not None:
                    self.groups[request.id] = group
                self.step_lock.when_idle(partial(self._give_slot, request))
                self.notify("request_added", request.id, request.params)

    def take_ids(self, requests: Sequence[Request]) -> None:
        """Make requests known, all or none; raises `RequestError` if an id is taken."""
        with self.step_lock.lock:
            for request in requests:
                if request.id in self.known:
                    raise RequestError(f"request id {request.id!r} is taken")
            for request in requests:
                self.known[request.id] = request

    def _give_slot(self, request: Request) -> None:
        self._batch = None
        request.slot = self.slots.put(
            request.state, request.params.given, request.seed, request.position, request.check_trigger()
        )

    # --- leaving ---------------------------------------------------------------------------------

    def remove(self, request_id: RequestId) -> Record:
        """Forget a request; one that is live ends with `abort`, and so does its beam search."""
        with self.step_lock.lock:
            request = self.find(request_id)
            del self.known[request_id]
            group = self.groups.pop(request_id, None)
            if self.live.pop(request_id, None) is not None:
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
        self._batch = None
        self.slots.remove(request.slot)
        request.slot = -1

    # --- inside ----------------------------------------------------------------------------------

    def _notify_finished(self, request: Request) -> None:
        if self._registry.catalogue.observers:
            self.notify("request_finished", request.record())

    def notify(self, event: str, *values: Any) -> None:
        """Call the observers; one that fails is logged, and changes nothing."""
        for name, observer in self._registry.catalogue.observers.items():
            if method := getattr(observer, event, None):
                try:
                    method(*values)
                except Exception:
                    logger.exception("observer %s failed at %s", name, event)

    def _keep(self, requests: list[Request], is_everyone: bool) -> InputBatch:
        self._batch_is_everyone = is_everyone
        batch = self._batch = InputBatch(self.slots, requests)
        return batch
