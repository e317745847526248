"""`BackendRun`: the backend's part of a step, done at once or in two halves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..base.errors import INTERRUPTIONS, failure
from ..contract import Backend, BackendError, Batch
from ..requests.draws import RowOutputs


class BackendRun:
    """Lets a backend draw, and finds out whether it has done what it may.

    may_repeat  whether a backend that runs out of memory raises MemoryError, so that the step can be
                repeated; else the requests end, and no step fails for ever.
    """

    def __init__(self, backend: Backend, *, may_repeat: bool) -> None:
        self.backend = backend
        self._may_repeat = may_repeat
        self._rest: Callable[[], None] | None = None
        """What finishes its part, once that has begun."""

    def begin(self, batch: Batch) -> None:
        """Let it queue its work."""
        try:
            self._rest = self.backend.begin(batch) or _nothing
        except (BackendError, MemoryError, *INTERRUPTIONS):
            raise
        except BaseException as error:
            self._rest = partial(_raise, error)  # as if `run` had raised it

    def is_done(self) -> bool:
        """Whether what has begun need not be waited for."""
        is_done: Any = getattr(self._rest, "is_done", None)
        return is_done is None or bool(is_done())

    def run(self, batch: Batch, outputs: RowOutputs) -> str | None:
        """Let it draw, into `outputs`. Returns why it failed, None if it did not; raises `BackendError`."""
        errors, run, self._rest = batch.errors, self._rest, None
        try:
            if run is None:
                self.backend.run(batch)
            else:
                run()
        except (BackendError, *INTERRUPTIONS):
            raise
        except BaseException as error:
            if self._may_repeat and isinstance(error, MemoryError):
                raise
            return failure(f"backend {self.backend.name}", error)
        is_kept = batch.token_ids is outputs.token_ids and batch.notes is outputs.notes
        if is_kept and batch.errors is errors and len(errors) == outputs.n and outputs.are_in_shape:
            return None
        return f"backend {self.backend.name} failed: it replaced or resized the batch's arrays"


def _nothing() -> None:
    """Nothing is left to do: the backend has finished already."""


def _raise(error: BaseException) -> None:
    raise error
