"""`LiveRequests`: how requests come to a scheduler, pause and leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ...base.errors import INTERRUPTIONS
from ...registry import Registry
from ...requests.request import Request
from ...requests.results import Record, RequestId, StepResult
from ...requests.slots import Slots
from ..beam_groups import BeamGroup
from .directory import Directory
from .keeping import Keeping
from .observers import Observers
from .planning import Planning
from .seats import Seats
from .step_lock import StepLock


class LiveRequests(Directory):
    """The requests of a scheduler, which join and leave.

    step_lock  held in part by every method that may be called from any thread.
    keeping    what interrupted calls leave as it was.
    plan       the rows of a step, see `Planning.plan`.
    observers  who is told of requests and steps.
    """

    def __init__(self, slots: Slots, registry: Registry) -> None:
        super().__init__()
        self.slots = slots
        self.step_lock = StepLock(self._restore)
        self.keeping = Keeping(slots, self.step_lock, self.retire_if_done)
        self._planning = Planning(self, slots, self.step_lock)
        self.plan = self._planning.plan
        self._seats = Seats(slots, self._planning, self.step_lock)
        self.observers = Observers(registry, self.step_lock, slots.vocabulary.scheduler, self.begun_with)

    def find(self, request_id: RequestId) -> Request:
        """The request of this id, after everything that waits; see `Directory.find`."""
        self.step_lock.settle()
        return super().find(request_id)

    # --- joining ---------------------------------------------------------------------------------

    def add(self, requests: Sequence[Request], group: BeamGroup | None = None, *, late: bool = False) -> None:
        """Add requests, all or none; they get their slots now, or right after the step that is running. What
        prevents that is raised now as a `RequestError`; then, or if they come `late`, it ends them with
        `error`."""
        with self.step_lock.lock:
            self.check_ids(requests)
            late = late or self.step_lock.running
            join = partial(self._join_late if late else self._seats.give_all, requests)
            try:
                for request in requests:
                    self.known[request.id] = self.live[request.id] = request
                    if group is not None:
                        self.groups[request.id] = group
                self._planning.forget()  # it may skip one of these ids
                self.step_lock.when_idle(join)
            except BaseException:
                self.step_lock.cancel(join)
                self.forget(requests)
                self.step_lock.when_idle(partial(self._seats.take_all, requests))
                raise
            for request in requests:
                self.observers.notify("request_added", request.id, request.params)

    def take_ids(self, requests: Sequence[Request]) -> None:
        """Make requests known, all or none; raises `RequestError` if an id is taken."""
        with self.step_lock.lock:
            self.check_ids(requests)
            try:
                for request in requests:
                    self.known[request.id] = request
                self._planning.forget()
            except BaseException:
                self.forget(requests)
                raise

    def _join_late(self, requests: Sequence[Request]) -> None:
        """Give requests their slots after a step; those that cannot join end with the reason."""
        try:
            self._seats.give_all(requests)
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            self._seats.take_all(requests)
            for request in requests:
                request.fail(str(error))
                self.groups.pop(request.id, None)
                self.retire_if_done(request)

    def roll_back(self, request: Request, n: int) -> None:
        """Undo the last n output tokens of a live request."""
        self.keeping.keep_shorter(request, n)
        request.rollback(self.slots, n)
        self.retire_if_done(request)

    def rewind_after(self, request: Request) -> None:
        """Let a request go back to where a ban begins after the step that runs now."""
        self.step_lock.after(partial(self._rewind, request))

    def _rewind(self, request: Request) -> None:
        """May be done more than once; the step may have been undone, and the request removed."""
        rewinds = request.rewinding
        if rewinds is None or not request.live or request.slot < 0:
            return
        n = request.history.output_length + len(request.backlog) - rewinds[-1].position
        self.keeping.keep_shorter(request, n)
        request.rewind(self.slots)
        self.retire_if_done(request)

    def begun_with(self, result: StepResult) -> Iterator[RequestId]:
        """The live requests of a step whose outputs have begun since they were last looked at."""
        for request_id in result.request_ids:
            request = self.live.get(request_id)
            if request is not None and request.begins():
                yield request_id

    # --- pausing ---------------------------------------------------------------------------------

    def suspend(self, request: Request) -> None:
        """Take the slot from a live request, and nothing else."""
        request.position = int(self.slots.positions[request.slot])
        self.step_lock.if_interrupted(partial(self._set_aside, request))
        self.suspended.add(request.id)
        del self.live[request.id]
        self._seats.free(request)

    def resume(self, request: Request) -> None:
        """Give a suspended request a slot again; it stays suspended if that fails."""
        self.step_lock.if_interrupted(partial(self._set_aside, request))
        self._seats.give_all([request])
        self.live[request.id] = request
        self.suspended.remove(request.id)

    def _set_aside(self, request: Request) -> None:
        """Suspend a request whose suspension or resumption was interrupted."""
        self.suspended.add(request.id)
        self.live.pop(request.id, None)
        self._seats.take(request)

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
            request.has_moved = False
            self._planning.forget()
        if not request.live:
            self.step_lock.after(partial(self._retire, request))

    def seat_next(self, members: Sequence[Request], successors: Sequence[Request]) -> None:
        """Give the live ones of the next texts of a beam search slots; `unseat` them if it raises."""
        position = int(self.slots.positions[members[0].slot]) + 1
        for request in successors:
            if request.live:
                request.position = position
                self._seats.give(request)

    def unseat(self, successors: Sequence[Request]) -> None:
        """Take the slots of texts that do not follow after all."""
        self._seats.take_all(successors)

    def replace_group(
        self, group: BeamGroup, members: Sequence[Request], successors: Sequence[Request], search: Any
    ) -> bool:
        """Put the next texts of a beam search, which is then `search`, in the places of its members; those
        that have ended stay as records, the others have slots. False if the search has been aborted
        meanwhile: it stays as it is."""
        with self.step_lock.lock:
            if group.aborted:
                self.unseat(successors)
                return False
            self.step_lock.if_interrupted(partial(self._put_back, group, members, group.search))
            for request_id, request in zip(group.request_ids, successors, strict=True):
                request.id = request_id
                self.known[request_id] = self.live[request_id] = request
            group.search = search
            self.step_lock.after(partial(self._free_replaced, members))
            for request in successors:
                self.retire_if_done(request)
        return True

    def _put_back(self, group: BeamGroup, members: Sequence[Request], search: Any) -> None:
        """Give a beam search back the texts that it had before a step which was interrupted."""
        group.search = search
        for request_id, request in zip(group.request_ids, members, strict=True):
            if self.groups.get(request_id) is group:
                self.known[request_id] = self.live[request_id] = request
            else:  # it has been removed meanwhile
                self.step_lock.after(partial(self._abort, request))

    def _hide(self, request: Request, group: BeamGroup | None, ending: Sequence[Request]) -> None:
        self._planning.forget()
        self.hide(request, group, ending)

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
        if request.prompt_scoring is not None:
            request.prompt_scoring.tell_unless_done()
        with self.step_lock.lock:
            self.retire(request)
            self._release(request)

    def _release(self, request: Request) -> None:
        self._seats.free(request)
        if not request.is_reported:
            request.is_reported = True
            if self.observers.are_there:
                if request.begins():
                    self.observers.notify("first_token", request.id)
                self.observers.notify("request_finished", request.record())

    def _free_replaced(self, members: Sequence[Request]) -> None:
        for request in members:
            if self.live.get(request.id) is not request:  # else it has been put back
                self._seats.free(request)

    # --- inside ----------------------------------------------------------------------------------

    def _restore(self) -> None:
        """After an interrupted call, when the requests are what they must be."""
        self._seats.restore()
