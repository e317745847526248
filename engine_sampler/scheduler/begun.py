"""`BegunStep`: a step whose device works while the host does not wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..requests.results import StepResult
from .step_lock import StepLock


class BegunStep:
    """What `Scheduler.begin` returns; `finish` gives the result of the step, once.

    token_ids_on_device  int64 [rows] on the device of the logits, in the order of its stream: the tokens of
                         all rows as they will be there, −1 for a faulty row; None if the backend leaves none
                         there. A token that a grammar or an ended request refuses is among them: the result
                         says.

    A begun step that is dropped has not been done, and so has one whose `finish` is interrupted: the logits
    can be given to another.
    """

    def __init__(
        self, token_ids_on_device: Any, finish: Callable[[float], StepResult], step_lock: StepLock
    ) -> None:
        self.token_ids_on_device = token_ids_on_device
        self.seconds = 0.0
        self._finish: Callable[[float], StepResult] | None = finish
        self._step_lock = step_lock

    def finish(self) -> StepResult:
        """Wait for the tokens, and do the rest of the step. Raises RuntimeError if that is done or given up,
        else what `Scheduler.step` raises."""
        finish, self._finish = self._finish, None
        if finish is None:
            raise RuntimeError("the step is over: it can be finished once")
        return finish(self.seconds)

    def give_up(self) -> None:
        """Do not finish the step: it has not been done. What its device still does is waited for."""
        if self._finish is not None:
            self._finish = None
            self._step_lock.let_go()
            self._step_lock.settle()

    def __del__(self) -> None:
        if self._finish is not None:
            self._step_lock.let_go()
