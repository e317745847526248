"""`Keeping`: what a call that does not come to its end leaves as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ...requests.ending import latest_ending
from ...requests.request import Request
from ...requests.results import StepResult
from ...requests.slots import Slots
from .step_lock import StepLock


class Keeping:
    """The steps that have been done, and the requests as they were before the call that runs now: it notes
    which it is going to touch. If it does not come to its end, these are made anew from their tokens, those
    which they had then.

    steps        the number of the next step.
    last_result  the result of the last one.
    retire       takes a request out of the live ones if it has ended.
    """

    def __init__(self, slots: Slots, step_lock: StepLock, retire: Callable[[Request], None]) -> None:
        self._slots = slots
        self._step_lock = step_lock
        self._retire_if_done = retire
        self.steps = 0
        self.last_result: StepResult | None = None

    def finish_step(self, result: StepResult) -> None:
        """The step that runs now has this result."""
        self.steps += 1
        self.last_result = result

    def keep(self, requests: Sequence[Request], slots: np.ndarray) -> None:
        """The call that runs now touches `requests`, which are in `slots`, or counts as a step."""
        lengths = self._slots.pool.lengths.copy()  # faster than taking those of the slots
        self._step_lock.if_interrupted(
            partial(self._bring_back, requests, slots, lengths, latest_ending(), self.steps, self.last_result)
        )

    def keep_one(self, request: Request) -> None:
        """`keep` a request whose backlog may change, too."""
        self._step_lock.if_interrupted(partial(setattr, request, "backlog", request.backlog))
        self.keep([request], np.array([request.slot]))

    def keep_answer(self, request: Request) -> None:
        """The call that runs now lets the parser of a request read on. Called before the request itself is
        kept, which is then brought back first."""
        length = request.attempt("the parser", len, request.answer, otherwise=0)
        self._step_lock.if_interrupted(partial(self._bring_back_answer, request, length))

    def keep_shorter(self, request: Request, n: int) -> None:
        """The call that runs now undoes the last `n` output tokens of a request: an interruption leads to the
        same end."""
        backlog, length = request.without_last(n)
        self._step_lock.if_interrupted(partial(request.rebuild, self._slots, length))
        self._step_lock.if_interrupted(partial(setattr, request, "backlog", backlog))

    def _bring_back_answer(self, request: Request, length: int) -> None:
        if request.answer is not None:
            request.attempt("the parser", request.answer.rollback, length)
        self._retire_if_done(request)

    def _bring_back(
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
            request.rebuild(self._slots, length, since, step)
