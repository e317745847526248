"""`Session`: the loop between a model and a `Scheduler`, whatever engine the model runs in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .params import SamplingParams
from .results import RequestId, StepResult
from .scheduler import Scheduler


class Session:
    """One `Scheduler` fed by one engine; requests may be added between any two steps.

    An engine subclasses it with `encode`, `forward` and, where it keeps something for each request,
    `forget`.

    steps, rows       forward passes, and the rows of all of them.
    model_seconds, sampling_seconds  where the time of the steps went.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.steps = 0
        self.rows = 0
        self.model_seconds = 0.0
        self.sampling_seconds = 0.0
        self._contexts: dict[RequestId, list[int]] = {}

    @property
    def seconds(self) -> float:
        """The time of all steps."""
        return self.model_seconds + self.sampling_seconds

    def encode(self, prompt: str) -> list[int]:
        """The engine's own token ids for a prompt, special tokens included."""
        raise NotImplementedError

    def forward(self, contexts: Mapping[RequestId, list[int]]) -> Any:
        """One row of logits behind each context, in this order: [rows, ≥ vocab].

        contexts  prompt and output of the live requests, by id; only to be read.
        """
        raise NotImplementedError

    def forget(self, request_id: RequestId) -> None:
        """Drop what is kept for a request that has ended or was removed."""

    def add(self, params: SamplingParams, prompt: str, request_id: RequestId | None = None) -> RequestId:
        """Add a request; returns its id."""
        token_ids = self.encode(prompt)
        request_id = self.scheduler.add(params, token_ids, request_id=request_id)
        self._contexts[request_id] = token_ids
        return request_id

    def step(self) -> StepResult:
        """One token for every live request."""
        start = time.perf_counter()
        live = {r: self._contexts[r] for r in self.scheduler.request_ids}
        logits = self.forward(live)
        middle = time.perf_counter()
        result = self.scheduler.step(logits, list(live))
        end = time.perf_counter()
        for i, request_id in enumerate(result.request_ids):
            self._contexts[request_id] += result.tokens(i)
        self._forget_ended()
        self.steps += 1
        self.rows += len(live)
        self.model_seconds += middle - start
        self.sampling_seconds += end - middle
        return result

    def _forget_ended(self) -> None:
        for request_id in self._contexts.keys() - set(self.scheduler.request_ids):
            del self._contexts[request_id]
            self.forget(request_id)
