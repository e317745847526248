"""`Observers`: who is told of the requests and steps of a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...contract import StepMeasures
from ...registry import Registry
from ...requests.results import RequestId, StepResult
from .step_lock import StepLock


class Observers:
    """Calls the registered observers, which cannot start a step meanwhile.

    scheduler  the name of the scheduler that they are told of.
    begun      the requests that have begun with a step.
    """

    def __init__(
        self,
        registry: Registry,
        step_lock: StepLock,
        scheduler: str,
        begun: Callable[[StepResult], Iterable[RequestId]],
    ) -> None:
        self._scheduler = scheduler
        self._begun = begun
        self._registry = registry
        self._step_lock = step_lock

    @property
    def are_there(self) -> bool:
        """Whether there are any."""
        return bool(self._registry.catalogue.observers)

    def notify(self, event: str, *values: Any) -> None:
        """Tell them of an event."""
        if self.are_there:
            with self._step_lock.building():
                self._registry.notify(event, *values, scheduler=self._scheduler)

    def notify_step(self, result: StepResult, measures: Callable[[], StepMeasures]) -> None:
        """Show them a copy of `result`, its measures, and the requests that have begun with it, which only
        they need."""
        handlers = self._registry.catalogue.handlers
        if "step_measured" in handlers:
            self.notify("step_measured", measures())
        if "first_token" in handlers:
            for request_id in self._begun(result):
                self.notify("first_token", request_id)
        if "step_finished" in handlers:
            self.notify("step_finished", result.copied())
