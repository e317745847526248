"""`Session`: the loop between a model and a `Scheduler`, for any inference engine."""

from __future__ import annotations

import operator
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .base.arguments import instance_of
from .base.errors import ParameterError
from .params import SamplingParams
from .scheduler import RequestId, Scheduler, StepResult, sibling_count


class Session:
    """One `Scheduler` fed by one engine; requests may be added between any two steps.

    An engine subclasses it and defines `encode`, `forward` and, if it keeps state per request, `forget`. One
    that defines `forward_drafts`, too, checks what the `drafter` of a request guesses.

    scheduler         draws the tokens; its vocabulary is the engine's.
    max_requests      the maximum number of live requests; None: no limit.
    chat_template     the model's chat template, in Jinja; None without one.
    template_tokens   the special tokens that it may name, `bos_token` and `eos_token`.
    steps, rows       forward passes, and the total number of their rows.
    drafted, accepted  the tokens that were drafted, and those of them that were drawn.
    model_seconds, sampling_seconds  the time that all steps spent in the model and in sampling.
    """

    chat_template: str | None = None
    template_tokens: Mapping[str, str] = {}

    def __init__(self, scheduler: Scheduler, max_requests: int | None = None) -> None:
        self.scheduler = scheduler
        self.max_requests = max_requests
        self.steps = 0
        self.rows = 0
        self.drafted = 0
        self.accepted = 0
        self.model_seconds = 0.0
        self.sampling_seconds = 0.0
        self._result = scheduler.last_result
        """The result of the last step that the contexts have followed."""
        self._contexts: dict[RequestId, list[int]] = {}
        self._drafts: Mapping[RequestId, list[int]] = {}
        """Those of a step that is not over."""

    @property
    def seconds(self) -> float:
        """The total time of all steps."""
        return self.model_seconds + self.sampling_seconds

    def encode(self, prompt: str) -> list[int]:
        """The engine's own token ids for a prompt, including special tokens."""
        raise NotImplementedError

    def forward(self, contexts: Mapping[RequestId, list[int]]) -> Any:
        """One row of logits after each context, in their order: [rows, ≥ vocab].

        contexts  request id → token ids of prompt and output, for all live requests; read-only.
        """
        raise NotImplementedError

    def forward_drafts(
        self, contexts: Mapping[RequestId, list[int]], drafts: Mapping[RequestId, Sequence[int]]
    ) -> Any:
        """As `forward`, with 1 + k rows for a request that has k drafts: the logits after its context, then
        those after each of the drafts.

        drafts  request id → what may follow its context, for some of the requests; read-only.

        If a draft is wrong, `rewind` says how much of context and drafts goes on.
        """
        return self.forward(contexts)

    @property
    def checks_drafts(self) -> bool:
        """Whether the engine defines `forward_drafts`."""
        return type(self).forward_drafts is not Session.forward_drafts

    def forget(self, request_id: RequestId) -> None:
        """Drop the state of a request that has ended, was removed, or now continues another text."""

    def rewind(self, request_id: RequestId, length: int) -> None:
        """The text of a request goes on after the first `length` tokens of its context, the last of which may
        not have run through the model yet: drop what its state has of later ones. By default, `forget` all of
        it."""
        self.forget(request_id)

    def check(self, params: SamplingParams) -> None:
        """Raise `ParameterError` for what this engine cannot serve."""
        instance_of(SamplingParams, "params", params, "a SamplingParams")
        if params.drafter and not self.checks_drafts:
            raise ParameterError(f"drafter={params.drafter!r} is not allowed: this engine checks no drafts")

    def add(self, params: SamplingParams, prompt: str, request_id: RequestId | None = None) -> RequestId:
        """Add a request and return its id."""
        self.check(params)
        self._check_capacity(1)
        token_ids = self.encode(prompt)
        request_id = self.scheduler.add(params, token_ids, request_id=request_id)
        self._contexts[request_id] = self._fed(params, request_id, token_ids)
        return request_id

    def add_group(self, params: SamplingParams, prompt: str) -> list[RequestId]:
        """Add the siblings that `params` request (n, best_of, a beam search) and return their ids."""
        self.check(params)
        self._check_capacity(sibling_count(params))
        token_ids = self.encode(prompt)
        request_ids = self.scheduler.add_group(params, token_ids)
        token_ids = self._fed(params, request_ids[0], token_ids)
        self._contexts |= {request_id: list(token_ids) for request_id in request_ids}
        return request_ids

    def _fed(self, params: SamplingParams, request_id: RequestId, token_ids: list[int]) -> list[int]:
        """The prompt that the model is given: without the token that is healed."""
        return self.scheduler.record(request_id).prompt_token_ids if params.token_healing else token_ids

    def _check_capacity(self, more: int) -> None:
        live = len(self.scheduler.request_ids)
        if self.max_requests is not None and live + more > self.max_requests:
            raise ValueError(
                f"max_requests={self.max_requests} does not allow {more} more: {live} already live"
            )

    def step(self) -> StepResult:
        """Run the model and the scheduler once for all live requests. After an interruption it may be called
        again; see `Scheduler.last_result`."""
        if self._result is not self.scheduler.last_result:
            self._read_contexts()
        for request_id in self._drafts.keys() & self._contexts.keys():
            self.forget(request_id)  # that step was interrupted: which of its drafts hold is not known
        live = {r: self._contexts[r] for r in self.scheduler.request_ids}
        drafting_start = time.perf_counter()
        self._drafts = self.scheduler.draft(list(live)) if self.checks_drafts else {}
        start = time.perf_counter()
        logits = self.forward_drafts(live, self._drafts)
        sampling_start = time.perf_counter()
        result = self.scheduler.step(logits, list(live), self._drafts or None)
        end = time.perf_counter()
        self._update_contexts(result)
        self._forget_ended()
        self._result, self._drafts = result, {}
        self.steps += 1
        self.rows += len(result.token_ids)
        self.model_seconds += sampling_start - start
        self.sampling_seconds += start - drafting_start + end - sampling_start
        return result

    def _update_contexts(self, result: StepResult) -> None:
        """Append a step's tokens to the contexts. A beam that continues another text adopts its context."""
        pairs = zip(result.request_ids, result.parent_ids, strict=True)
        moved = {r: list(self._contexts[parent]) for r, parent in pairs if r != parent}
        for request_id, token_ids in moved.items():
            self._contexts[request_id] = token_ids
            self.forget(request_id)
        for i, request_id in enumerate(result.request_ids):
            self.follow(self._contexts[request_id], result, i, self._drafts.get(request_id, ()))

    def follow(self, context: list[int], result: StepResult, i: int, draft: Sequence[int] = ()) -> None:
        """Change the context of request number i of a step, which had this draft, as the step says, and let
        the engine `rewind` what does not go on. For loops that keep the contexts themselves."""
        tokens, taken_back = result.tokens(i), result.rewinds[i] if result.rewinds else 0
        del context[len(context) - taken_back :]
        context += tokens
        if taken_back or len(tokens) <= len(draft) > 0:
            self.rewind(result.request_ids[i], len(context))
        self.drafted += len(draft)
        self.accepted += sum(map(operator.eq, tokens, draft))

    def _read_contexts(self) -> None:
        """Read the contexts from the scheduler, after a step that was done, but interrupted."""
        for request_id in self.scheduler.request_ids:
            record = self.scheduler.record(request_id)
            context, known = [*record.prompt_token_ids, *record.token_ids], self._contexts[request_id]
            if context[: len(known)] != known:
                self.forget(request_id)
            self._contexts[request_id] = context
        self._forget_ended()
        self._result = self.scheduler.last_result

    def _forget_ended(self) -> None:
        for request_id in self._contexts.keys() - set(self.scheduler.request_ids):
            del self._contexts[request_id]
            self.forget(request_id)
