"""`Session`: the loop between a model and a `Scheduler`, whatever engine the model runs in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .params import SamplingParams
from .scheduler import RequestId, Scheduler, StepResult, sibling_count


class Session:
    """One `Scheduler` fed by one engine; requests may be added between any two steps.

    An engine subclasses it with `encode`, `forward` and, where it keeps something for each request,
    `forget`.

    max_requests      live requests at most; None: any number.
    steps, rows       forward passes, and the rows of all of them.
    model_seconds, sampling_seconds  where the time of the steps went.
    """

    def __init__(self, scheduler: Scheduler, max_requests: int | None = None) -> None:
        self.scheduler = scheduler
        self.max_requests = max_requests
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
        """Drop what is kept for a request: it has ended, was removed, or goes on from another text."""

    def add(self, params: SamplingParams, prompt: str, request_id: RequestId | None = None) -> RequestId:
        """Add a request; returns its id."""
        self._check_room(1)
        token_ids = self.encode(prompt)
        request_id = self.scheduler.add(params, token_ids, request_id=request_id)
        self._contexts[request_id] = token_ids
        return request_id

    def add_group(self, params: SamplingParams, prompt: str) -> list[RequestId]:
        """Add the siblings that `params` ask for (n, best_of, a beam search); returns their ids."""
        self._check_room(sibling_count(params))
        token_ids = self.encode(prompt)
        request_ids = self.scheduler.add_group(params, token_ids)
        self._contexts |= {request_id: list(token_ids) for request_id in request_ids}
        return request_ids

    def _check_room(self, more: int) -> None:
        live = len(self.scheduler.request_ids)
        if self.max_requests is not None and live + more > self.max_requests:
            raise ValueError(
                f"max_requests={self.max_requests} does not allow {more} beside {live} live ones"
            )

    def step(self) -> StepResult:
        """One token for every live request."""
        start = time.perf_counter()
        live = {r: self._contexts[r] for r in self.scheduler.request_ids}
        logits = self.forward(live)
        middle = time.perf_counter()
        result = self.scheduler.step(logits, list(live))
        end = time.perf_counter()
        self._follow(result)
        self._forget_ended()
        self.steps += 1
        self.rows += len(live)
        self.model_seconds += middle - start
        self.sampling_seconds += end - middle
        return result

    def _follow(self, result: StepResult) -> None:
        """Bring the contexts up to a step; a beam that goes on from another text is worked out anew."""
        pairs = zip(result.request_ids, result.parent_ids, strict=True)
        moved = {r: list(self._contexts[parent]) for r, parent in pairs if r != parent}
        for request_id, token_ids in moved.items():
            self._contexts[request_id] = token_ids
            self.forget(request_id)
        for i, request_id in enumerate(result.request_ids):
            self._contexts[request_id] += result.tokens(i)

    def _forget_ended(self) -> None:
        for request_id in self._contexts.keys() - set(self.scheduler.request_ids):
            del self._contexts[request_id]
            self.forget(request_id)
