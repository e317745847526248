"""`Observers`: who is told of the requests and steps of a scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...contract import StepMeasures
from ...registry import Registry
from ...requests.results import StepResult
from .step_lock import StepLock


class Observers:
    """Calls the registered observers, which cannot start a step meanwhile."""

    def __init__(self, registry: Registry, step_lock: StepLock) -> None:
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
                self._registry.notify(event, *values)

    def notify_step(self, result: StepResult, measures: Callable[[], StepMeasures]) -> None:
        """Show them a copy of `result`, and its measures, which only they need."""
        handlers = self._registry.catalogue.handlers
        if handlers:
            with self._step_lock.building():
                if "step_measured" in handlers:
                    self._registry.notify("step_measured", measures())
                if "step_finished" in handlers:
                    self._registry.notify("step_finished", result.copied())
