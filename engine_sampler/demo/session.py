"""The engine's loop: contexts in, logits to the scheduler, tokens back to the contexts."""

from __future__ import annotations

import time

from ..params import SamplingParams
from ..results import RequestId, StepResult
from ..scheduler import Scheduler
from .engine import Engine


class Session:
    """One `Scheduler` fed by the embedded engine; requests may be added between any two steps.

    steps, rows       forward passes, and the rows of all of them.
    model_seconds, sampling_seconds  where the time of the steps went.
    """

    def __init__(self, engine: Engine, backend: str = "auto") -> None:
        self.engine = engine
        self.scheduler = Scheduler(len(engine.tokenizer), engine.tokenizer, backend=backend)
        self.steps = 0
        self.rows = 0
        self.model_seconds = 0.0
        self.sampling_seconds = 0.0
        self._contexts: dict[RequestId, list[int]] = {}

    @property
    def seconds(self) -> float:
        """The time of all steps."""
        return self.model_seconds + self.sampling_seconds

    def add(self, params: SamplingParams, prompt: str, request_id: RequestId | None = None) -> RequestId:
        """Add a request; returns its id."""
        token_ids = self.engine.tokenizer.encode(prompt)
        request_id = self.scheduler.add(params, token_ids, request_id=request_id)
        self._contexts[request_id] = token_ids
        return request_id

    def step(self) -> StepResult:
        """One token for every live request."""
        start = time.perf_counter()
        logits = self.engine.model.logits(self._contexts[r] for r in self.scheduler.request_ids)
        middle = time.perf_counter()
        result = self.scheduler.step(logits)
        end = time.perf_counter()
        for i, request_id in enumerate(result.request_ids):
            self._contexts[request_id] += result.tokens(i)
        self.steps += 1
        self.rows += len(logits)
        self.model_seconds += middle - start
        self.sampling_seconds += end - middle
        return result
