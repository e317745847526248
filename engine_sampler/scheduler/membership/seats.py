"""`Seats`: which requests have slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from ...base.errors import INTERRUPTIONS, failure, quoted
from ...requests.ending import RequestError
from ...requests.request import Request
from ...requests.slots import Slots
from .planning import Planning
from .step_lock import StepLock


class Seats:
    """Gives requests their slots, and takes them back. A request that a call was giving one when it was
    interrupted, or taking it from, has none afterwards."""

    def __init__(self, slots: Slots, planning: Planning, step_lock: StepLock) -> None:
        self._slots = slots
        self._planning = planning
        self._step_lock = step_lock

    def give_all(self, requests: Sequence[Request]) -> None:
        """Give all of the requests, which have one prompt, their slots, or none. Raises `RequestError`."""
        try:
            self._slots.pool.reserve(requests[0].state.history.prompt_length, len(requests))
            for request in requests:
                self.give(request)
        except (RequestError, MemoryError, *INTERRUPTIONS):
            raise
        except BaseException as error:
            raise RequestError(failure(f"joining of request {quoted(requests[0].id)}", error)) from error

    def give(self, request: Request) -> None:
        """Give a request a slot."""
        self._planning.forget()
        self._step_lock.if_interrupted(partial(self.take, request))
        request.slot = self._slots.put(
            request.state, request.phases.given, request.seed, request.position, request.check_trigger()
        )

    def free(self, request: Request) -> None:
        """Free the slot of a request, if it has one."""
        self._planning.forget()
        if request.slot >= 0:
            self._step_lock.if_interrupted(partial(self.take, request))
            if request.has_lacked_memory:  # it may have ended in the middle of a change of its slot
                self._slots.take_out(self._slots.entries[request.slot])
                self.restore()
            else:
                self._slots.remove(request.slot)
            request.slot = -1

    def take(self, request: Request) -> None:
        """Take the slot from a request that may have half of one; then `restore` must follow."""
        self._slots.take_out(request.state)
        request.slot = -1

    def take_all(self, requests: Iterable[Request]) -> None:
        """`take` the slots of all `requests`, and `restore`."""
        for request in requests:
            self.take(request)
        self.restore()

    def restore(self) -> None:
        """Bring order into what follows from the requests that have slots, after a call that was
        interrupted."""
        self._planning.forget()
        self._slots.restore()
