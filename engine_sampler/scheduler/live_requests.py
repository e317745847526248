"""All requests of a scheduler: which are live, which have finished, and which slots they have."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base.errors import INTERRUPTIONS, failure, quoted
from ..contract import StepMeasures
from ..registry import Registry
from ..requests.ending import RequestError, latest_ending
from ..requests.request import Request
from ..requests.results import Record, RequestId, StepResult
from ..requests.slots import Slots
from .beam_groups import BeamGroup
from .input_batch import InputBatch
from .row_plans import RowPlan
from .step_lock import StepLock

MOST_REMOVED = 1 << 14
"""The most ids of removed requests that are remembered, to skip their rows in a step."""


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
        self.step_lock = StepLock(self._restore)
        self.known: dict[RequestId, Request] = {}
        self.live: dict[RequestId, Request] = {}
        self.suspended: set[RequestId] = set()
        self.groups: dict[RequestId, BeamGroup] = {}
        self.steps = 0
        """The number of the next step."""
        self.last_result: StepResult | None = None
        self._registry = registry
        self._removed: OrderedDict[RequestId, None] = OrderedDict()
        """The ids of the requests removed last."""
        self._numbers = itertools.count()
        self._plan: RowPlan | None = None
        """The rows of the last step, while no request has joined or left."""

    # --- look-up ---------------------------------------------------------------------------------

    def find(self, request_id: RequestId) -> Request:
        """The request of this id, live or finished; raises `RequestError` for an unknown id."""
        self.step_lock.settle()
        try:
            return self.known[request_id]
        except KeyError:
            raise RequestError(f"request {quoted(request_id)} is unknown") from None

    def find_live(self, request_id: RequestId) -> Request:
        """The live request of this id; raises `RequestError` if it has finished, is suspended, or waits."""
        request = self.find(request_id)
        if request_id not in self.live:
            raise RequestError(f"request {quoted(request_id)} {self._absence(request)}")
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
            raise RequestError(f"request {quoted(request_id)} is not suspended")
        return request

    def find_single(self, request_id: RequestId) -> Request:
        """A live request that does not belong to a beam search, and has not failed since the last step."""
        request = self.find_live(request_id)
        if not request.live:
            raise RequestError(f"request {quoted(request_id)} has finished ({request.finish_reason})")
        if request_id in self.groups:
            raise RequestError(
                f"request {quoted(request_id)} belongs to a beam search, which alone continues it"
            )
        return request

    def plan(self, request_ids: Sequence[RequestId] | None, *, strict: bool = False) -> RowPlan:
        """One row for each of these ids, default all live ones; the same object while the ids stay the same.

        Ids whose requests have left are skipped, or refused with `strict`.
        """
        plan = self._plan
        if request_ids is None and plan is not None and plan.inputs.is_everyone:
            return plan
        with self.step_lock.lock:
            plan = self._plan
            if request_ids is None:
                seated = [request for request in self.live.values() if request.slot >= 0]
                self._plan = plan = RowPlan(InputBatch(self.slots, seated, is_everyone=True))
                return plan
            if isinstance(request_ids, str):  # its letters would be taken for ids
                raise RequestError(f"request_ids={quoted(request_ids)} is not allowed: a list of ids")
            ids = list(request_ids)
            if plan is None or plan.inputs.named != ids or (strict and plan.inputs.skipped):
                self._plan = plan = RowPlan(self._new_batch(ids, strict))
            return plan

    def batch(self, request_ids: Sequence[RequestId] | None) -> InputBatch:
        """The requests of these ids, as in `plan`."""
        return self.plan(request_ids).inputs

    def _new_batch(self, ids: list[RequestId], strict: bool) -> InputBatch:
        if len(set(ids)) != len(ids):
            raise RequestError(f"request_ids={quoted(ids)} names a request twice")
        requests: list[Request] = []
        skipped: list[tuple[int, Request | None]] = []
        for i, request_id in enumerate(ids):
            if request_id in self.live or strict or not self._has_left(request_id):
                requests.append(self._find_seated(request_id))
            else:
                skipped.append((i, self.known.get(request_id)))
        return InputBatch(self.slots, requests, ids, skipped, is_everyone=ids == list(self.live))

    def _has_left(self, request_id: RequestId) -> bool:
        """Whether the request of this id has been removed or has finished."""
        request = self.known.get(request_id)
        return request_id in self._removed if request is None else not request.live

    def _find_seated(self, request_id: RequestId) -> Request:
        """A live request that has a slot."""
        request = self.find_live(request_id)
        if request.slot < 0:
            raise RequestError(f"request {quoted(request_id)} joins after the step that is running")
        return request

    def keep_if_interrupted(self, requests: Sequence[Request], slots: np.ndarray) -> None:
        """If the call that runs now does not come to its end, `requests`, which are in `slots`, are
        afterwards as they are now, and so is the last result."""
        lengths = self.slots.pool.lengths.copy()  # faster than taking those of the slots
        self.step_lock.if_interrupted(
            partial(self._settle, requests, slots, lengths, latest_ending(), self.steps, self.last_result)
        )

    def keep_answer_if_interrupted(self, request: Request) -> None:
        """The same for what reads the answer of a request; called before the request itself is kept, which is
        then brought back first."""
        length = request.attempt("the parser", len, request.answer, otherwise=0)
        self.step_lock.if_interrupted(partial(self._cut_answer, request, length))

    def _cut_answer(self, request: Request, length: int) -> None:
        if request.answer is not None:
            request.attempt("the parser", request.answer.rollback, length)
        self.retire_if_done(request)

    def _settle(
        self,
        requests: Sequence[Request],
        slots: np.ndarray,
        lengths: np.ndarray,
        since: int,
        step: int,
        last_result: StepResult | None,
    ) -> None:
        self.steps, self.last_result = step, last_result
        for request, length in zip(requests, lengths[slots].tolist(), strict=True):
            request.rebuild(self.slots, length, since, step)

    def finish_step(self, result: StepResult) -> None:
        """The step that runs now has this result."""
        self.steps += 1
        self.last_result = result

    def groups_in(self, requests: Iterable[Request]) -> list[BeamGroup]:
        """The beam searches that `requests` belong to, each once."""
        groups = (self.groups.get(request.id) for request in requests)
        return list({id(group): group for group in groups if group is not None}.values())

    # --- joining ---------------------------------------------------------------------------------

    def free_id(self, request_id: RequestId | None) -> RequestId:
        """`request_id`, or a new integer; raises `RequestError` if the id is taken."""
        if request_id is None:
            return next(n for n in self._numbers if n not in self.known)
        if request_id in self.known:
            raise RequestError(f"request id {quoted(request_id)} is taken")
        return request_id

    def add(self, requests: Sequence[Request], group: BeamGroup | None = None, *, late: bool = False) -> None:
        """Add requests, all or none; they get their slots now, or right after the step that is running. What
        prevents that is raised now as a `RequestError`; then, or if they come `late`, it ends them with
        `error`."""
        with self.step_lock.lock:
            self._check_ids(requests)
            late = late or self.step_lock.running
            join = partial(self._join_late if late else self._join, requests)
            try:
                for request in requests:
                    self.known[request.id] = self.live[request.id] = request
                    if group is not None:
                        self.groups[request.id] = group
                self._plan = None  # it may skip one of these ids
                self.step_lock.when_idle(join)
            except BaseException:
                self.step_lock.cancel(join)
                self.forget(requests)
                self.step_lock.when_idle(partial(self._free_slots, requests))
                raise
            for request in requests:
                self.notify("request_added", request.id, request.params)

    def take_ids(self, requests: Sequence[Request]) -> None:
        """Make requests known, all or none; raises `RequestError` if an id is taken."""
        with self.step_lock.lock:
            self._check_ids(requests)
            try:
                for request in requests:
                    self.known[request.id] = request
                self._plan = None
            except BaseException:
                self.forget(requests)
                raise

    def forget(self, requests: Sequence[Request]) -> None:
        """Make requests unknown that have not joined."""
        for request in requests:
            for places in (self.known, self.live):
                if places.get(request.id) is request:
                    del places[request.id]
                    self.groups.pop(request.id, None)

    def _check_ids(self, requests: Sequence[Request]) -> None:
        for request in requests:
            if request.id in self.known:
                raise RequestError(f"request id {quoted(request.id)} is taken")

    def _join(self, requests: Sequence[Request]) -> None:
        """Give all of the requests their slots, or none."""
        try:
            self.slots.pool.reserve(requests[0].state.history.prompt_length, len(requests))
            for request in requests:
                self._give_slot(request)
        except (RequestError, MemoryError, *INTERRUPTIONS):
            raise
        except BaseException as error:
            raise RequestError(failure(f"joining of request {quoted(requests[0].id)}", error)) from error

    def _join_late(self, requests: Sequence[Request]) -> None:
        """`_join` after a step; requests that cannot join end with the reason."""
        try:
            self._join(requests)
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            for request in requests:
                self._unseat(request)
                request.fail(str(error))
                self.groups.pop(request.id, None)
                self.retire_if_done(request)
            self._restore()

    def _give_slot(self, request: Request) -> None:
        self._plan = None
        self.step_lock.if_interrupted(partial(self._unseat, request))
        request.slot = self.slots.put(
            request.state, request.phases.given, request.seed, request.position, request.check_trigger()
        )

    def roll_back(self, request: Request, n: int) -> None:
        """Undo the last n output tokens of a live request; an interruption leads to the same end."""
        backlog, length = request.without_last(n)
        self.step_lock.if_interrupted(partial(request.rebuild, self.slots, length))
        self.step_lock.if_interrupted(partial(setattr, request, "backlog", backlog))
        request.rollback(self.slots, n)
        self.retire_if_done(request)

    # --- pausing ---------------------------------------------------------------------------------

    def suspend(self, request: Request) -> None:
        """Take the slot from a live request, and nothing else."""
        request.position = int(self.slots.positions[request.slot])
        self.step_lock.if_interrupted(partial(self._set_aside, request))
        self.suspended.add(request.id)
        del self.live[request.id]
        self._free_slot(request)

    def resume(self, request: Request) -> None:
        """Give a suspended request a slot again; it stays suspended if that fails."""
        self.step_lock.if_interrupted(partial(self._set_aside, request))
        self._join([request])
        self.live[request.id] = request
        self.suspended.remove(request.id)

    def _set_aside(self, request: Request) -> None:
        """Suspend a request whose suspension or resumption was interrupted."""
        self.suspended.add(request.id)
        self.live.pop(request.id, None)
        self._unseat(request)

    # --- leaving ---------------------------------------------------------------------------------

    def remove(self, request_id: RequestId) -> Record:
        """Forget a request; one that is live ends with `abort`, and so does its beam search."""
        with self.step_lock.lock:
            request, group = self.find(request_id), self.groups.get(request_id)
            ids = [request_id] if group is None else group.request_ids
            ending = [self.live[i] for i in ids if i in self.live]
            if request_id in self.suspended:
                ending.append(request)
            self.step_lock.when_idle(partial(self._end_removed, request, group, ending))
            self._hide(request, group, ending)
            return request.record("abort")

    def retire_if_done(self, request: Request) -> None:
        """Take a finished request out of the live ones after the call that runs now; its record stays. One
        that has come into another phase belongs into another group of rows."""
        if request.has_moved:
            request.has_moved, self._plan = False, None
        if not request.live:
            self.step_lock.after(partial(self._retire, request))

    def replace_group(
        self, group: BeamGroup, members: Sequence[Request], successors: Sequence[Request], search: Any
    ) -> bool:
        """Put the next texts of a beam search, which is then `search`, in the places of its members; those
        that have ended stay as records. False, and nothing changes, if the search has been aborted
        meanwhile."""
        with self.step_lock.lock:
            if group.aborted:
                return False
            self.step_lock.if_interrupted(partial(self._put_back, group, members, group.search))
            self._seat_next(successors, int(self.slots.positions[members[0].slot]) + 1)
            for request_id, request in zip(group.request_ids, successors, strict=True):
                request.id = request_id
                self.known[request_id] = self.live[request_id] = request
            group.search = search
            self.step_lock.after(partial(self._free_replaced, members))
            for request in successors:
                self.retire_if_done(request)
        return True

    def _seat_next(self, successors: Sequence[Request], position: int) -> None:
        """Give the live ones of the next texts of a beam search slots, or none of them."""
        try:
            for request in successors:
                if request.live:
                    request.position = position
                    self._give_slot(request)
        except BaseException:
            self._free_slots(successors)
            raise

    def _put_back(self, group: BeamGroup, members: Sequence[Request], search: Any) -> None:
        """Give a beam search back the texts that it had before a step which was interrupted."""
        group.search = search
        for request_id, request in zip(group.request_ids, members, strict=True):
            if self.groups.get(request_id) is group:
                self.known[request_id] = self.live[request_id] = request
            else:  # it has been removed meanwhile
                self.step_lock.after(partial(self._abort, request))

    def _hide(self, request: Request, group: BeamGroup | None, ending: Sequence[Request]) -> None:
        """Nobody finds a request that is removed, nor those that end with it among the live ones."""
        self._plan = None
        if self.known.get(request.id) is request:
            self._remember_removed(request.id)
            del self.known[request.id]
            self.suspended.discard(request.id)
        for other in ending:
            if self.live.get(other.id) is other:
                del self.live[other.id]
        if group is not None:
            group.aborted = True
            for request_id in group.request_ids:
                if self.groups.get(request_id) is group:
                    del self.groups[request_id]

    def _end_removed(self, request: Request, group: BeamGroup | None, ending: Sequence[Request]) -> None:
        """Remove a request; an interruption leads to the same end."""
        self.step_lock.if_interrupted(partial(self._end_removed, request, group, ending))
        self._hide(request, group, ending)
        for other in ending:
            self._abort(other)

    def _abort(self, request: Request) -> None:
        if request.live:
            request.finish("abort")
        self._release(request)

    def _retire(self, request: Request) -> None:
        if request.live:
            return  # its end has been undone
        with self.step_lock.lock:
            if self.live.get(request.id) is request:  # not if it has been removed meanwhile
                del self.live[request.id]
                self.groups.pop(request.id, None)
            self._release(request)

    def _release(self, request: Request) -> None:
        self._free_slot(request)
        if not request.is_reported:
            request.is_reported = True
            if self.observed:
                self.notify("request_finished", request.record())

    def _free_slots(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self._free_slot(request)

    def _free_replaced(self, members: Sequence[Request]) -> None:
        for request in members:
            if self.live.get(request.id) is not request:  # else it has been put back
                self._free_slot(request)

    def _free_slot(self, request: Request) -> None:
        """Free the slot of a request, if it has one."""
        self._plan = None
        if request.slot >= 0:
            self.step_lock.if_interrupted(partial(self._unseat, request))
            self.slots.remove(request.slot)
            request.slot = -1

    def _unseat(self, request: Request) -> None:
        """Take the slot from a request that was interrupted while it got one or left it; then `_restore` must
        follow."""
        self.slots.take_out(request.state)
        request.slot = -1

    def _remember_removed(self, request_id: RequestId) -> None:
        self._removed[request_id] = None
        self._removed.move_to_end(request_id)
        if len(self._removed) > MOST_REMOVED:
            self._removed.popitem(last=False)

    # --- inside ----------------------------------------------------------------------------------

    @property
    def observed(self) -> bool:
        """Whether there are observers."""
        return bool(self._registry.catalogue.observers)

    def notify_step(self, result: StepResult, measures: Callable[[], StepMeasures]) -> None:
        """Show the observers a copy of `result`, and its measures, which only they need."""
        handlers = self._registry.catalogue.handlers
        if handlers:
            with self.step_lock.building():
                if "step_measured" in handlers:
                    self._registry.notify("step_measured", measures())
                if "step_finished" in handlers:
                    self._registry.notify("step_finished", result.copied())

    def notify(self, event: str, *values: Any) -> None:
        """Call the observers, which cannot start a step."""
        if self.observed:
            with self.step_lock.building():
                self._registry.notify(event, *values)

    def _restore(self) -> None:
        """Bring order into what follows from the requests, after a call that was interrupted."""
        self._plan = None
        self.slots.restore()
