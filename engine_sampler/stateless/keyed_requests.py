"""`KeyedRequests`: a scheduler whose requests, named by their owner's keys, nothing ends but their owner."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ..arithmetic import LogitRows
from ..params import SamplingParams
from ..requests.drafted import Draft
from ..requests.history import History
from ..requests.results import StepResult
from ..scheduler import Scheduler
from ..scheduler.arguments import few_token_ids_in
from ..scheduler.input_batch import InputBatch
from ..scheduler.membership.joining import Newcomers
from ..scheduler.row_plans import DraftPlan, RowPlan
from .row_step import ProcessedRows, RowStep, WithMasks


class Ends(NamedTuple):
    """The ends of the outputs of some requests: how many tokens they have, and the last of all tokens."""

    output_lengths: list[int]
    last_tokens: list[int]


class KeyedRequests(Scheduler):
    """Requests by key, and their steps: rows of logits with or without masks, in any order of the keys.

    A faulty row leaves its request as it is. One whose state cannot follow its tokens, which takes a faulty
    plugin, ends all the same, and is then not `has` any more.
    """

    def has(self, key: Hashable) -> bool:
        """Whether there is a request of this key."""
        return key in self._requests.live

    def history(self, key: Hashable) -> History:
        """The tokens of a request."""
        return self._requests.live[key].history

    def enter(
        self,
        key: Hashable,
        params: SamplingParams,
        prompt: Sequence[int] | np.ndarray,
        output: Sequence[int] | np.ndarray,
        seed: int,
    ) -> None:
        """Add a request. Raises as `add` does."""
        self.limits.check(params, self.vocabulary.size)
        newcomers = Newcomers.of(self, [key], params, (prompt, output), ())  # type: ignore[arg-type]
        with self._step_lock.building():
            siblings = replace(newcomers, seed=seed, ends=False).build(None)
        self._requests.add(*siblings)

    def leave(self, key: Hashable) -> None:
        """Forget a request, whether it is there or has ended."""
        if key in self._requests.known:
            self.remove(key)

    def lay_out(self, keys: Sequence[Hashable]) -> InputBatch:
        """The requests of these keys in row order; those that are not there are skipped."""
        live = self._requests.live
        requests = [live[key] for key in keys if key in live]
        skipped = [(i, None) for i, key in enumerate(keys) if key not in live]
        return InputBatch(self._requests.slots, requests, keys, skipped)

    def seats(self, keys: Sequence[Hashable]) -> tuple[list[int], np.ndarray]:
        """The indices of the keys that have a request, and the slots of these requests, int64."""
        live = self._requests.live
        places = [i for i, key in enumerate(keys) if key in live]
        return places, np.array([live[keys[i]].slot for i in places], np.int64)

    def ends(self, seats: np.ndarray) -> Ends:
        """The ends of the outputs of the requests in these slots."""
        slots = self._requests.slots
        lengths = slots.lengths[seats]
        prompts = slots.pool.prompt_lengths[seats]
        last = slots.offsets[seats] + lengths - 1
        return Ends((lengths - prompts).tolist(), slots.tokens[last].tolist() if len(slots.tokens) else [])

    def checked_drafts(self, drafts: Sequence[Sequence[int]]) -> list[list[int]]:
        """The drafts of each request. Raises `ParameterError`."""
        return [few_token_ids_in("draft_token_ids", draft, self.vocabulary) for draft in drafts]

    def draw(
        self,
        inputs: InputBatch,
        logits: LogitRows,
        drafts: list[list[int]] | None,
        masks: WithMasks | None,
        processed: np.ndarray | None,
    ) -> StepResult:
        """One step. The rows after their chains, but before a choice, go to `processed` [rows, vocab]."""
        started = time.perf_counter()
        with self._step_lock:
            slots = self._requests.slots
            plan = RowPlan(inputs) if drafts is None else DraftPlan(inputs, slots, [*map(Draft, drafts)])
            process = None
            if processed is not None:
                process = ProcessedRows(processed, partial(self._runner.process, before_choice=True), masks)
            self._runner.new_step = partial(RowStep, masks=masks, process=process)
            result = self._runner.run(plan, logits)
            self._requests.keeping.finish_step(result)
        self._notify(result, plan, logits, started)
        return result

    def take_back(self, result: StepResult) -> None:
        """Undo a step whose result nobody has seen."""
        for i, key in enumerate(result.request_ids):
            if key in self._requests.live:
                self.rollback(key, len(result.tokens(i)))
