"""`Owner`: the requests that one rank owns, in a `Scheduler` of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from engine_sampler import Record, Scheduler, StepResult
from engine_sampler.for_backends import INTERRUPTIONS, RequestId, text_of

from .answers import Details, RankAnswer
from .ledger import StepPlan


class Owner:
    """The requests that a rank owns.

    scheduler  has all of them but those that it could not add.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._refused: dict[RequestId, Record] = {}
        """Those that could not be added: they end with the reason in their first step."""

    def add(self, unable: Callable[[str], Sequence[Record]], call: Callable[[], object]) -> None:
        """Add requests by `call`; if it fails, they are what `unable` makes of the reason."""
        try:
            call()
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            self._refused |= {record.request_id: record for record in unable(text_of(error))}

    def fork(self, parent: RequestId, child: RequestId, seed: int | None) -> None:
        """Fork a request. The child of one that has ended ends as its parent has."""
        record = self.record(parent)

        def unable(reason: str) -> list[Record]:
            return [_ended(record, child, record.error or reason)]

        self.add(unable, lambda: self.scheduler.fork(parent, new_request_id=child, seed=seed))

    def change(self, request_id: RequestId, call: Callable[[], object]) -> None:
        """Do `call` to a request, unless it has ended: other ranks learn that with the next step only."""
        if self.record(request_id).finish_reason is None:
            call()

    def remove(self, request_id: RequestId) -> None:
        """Forget a request."""
        if self._refused.pop(request_id, None) is None:
            self.scheduler.remove(request_id)

    def record(self, request_id: RequestId) -> Record:
        """All that is known of a request."""
        refused = self._refused.get(request_id)
        return self.scheduler.record(request_id) if refused is None else refused

    def prepare(self, request_ids: Sequence[RequestId]) -> None:
        """Fill the grammar masks of these requests."""
        self.scheduler.prepare([r for r in request_ids if r not in self._refused])

    def step(self, plan: StepPlan, rank: int, logits: Tensor) -> StepResult | None:
        """Step the requests that `rank` owns, with their rows `logits` [rows, vocab]; None if there are none.
        If it raises, none of them has changed."""
        which, rows = self._joined(plan, rank)
        if not len(which):
            return None
        own = logits if len(rows) == len(logits) else logits[torch.from_numpy(rows).to(logits.device)]
        owned = plan.by_owner[rank][which].tolist()
        drafts = None if plan.drafts is None else [plan.drafts[i] for i in owned]
        return self.scheduler.step(own, [plan.entries[i].id for i in owned], drafts)

    def answer(self, plan: StepPlan, rank: int, result: StepResult | None) -> RankAnswer:
        """The answer about all requests that `rank` owns, from the result of `step`."""
        owned = plan.by_owner[rank].tolist()
        own = self._nothing if result is None else self._answer(result)
        if self._refused.keys().isdisjoint(plan.entries[i].id for i in owned):
            return own
        which, rows = self._joined(plan, rank)
        answer = own.spread(which, rows, len(owned), int(plan.counts[owned].sum()))
        for place, i in enumerate(owned):
            record = self._refused.get(plan.entries[i].id)
            if record is not None:
                answer.details.ends[place] = "error", None, record.error
                answer.seeds[place] = record.seed
        return answer

    # --- inside ----------------------------------------------------------------------------------

    def _joined(self, plan: StepPlan, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """Which of the requests that `rank` owns are in the scheduler, and their rows, counted among the rows
        that it owns; int64 both."""
        owned = plan.by_owner[rank]
        joined = np.array([plan.entries[i].id not in self._refused for i in owned.tolist()], bool)
        return np.flatnonzero(joined), np.flatnonzero(np.repeat(joined, plan.counts[owned]))

    @property
    def _nothing(self) -> RankAnswer:
        return RankAnswer(np.empty(0, np.int64), np.empty(0, np.uint64), Details([], {}, {}, [], {}))

    def _answer(self, result: StepResult) -> RankAnswer:
        """A scheduler's result as the answer about its rows."""
        ids = result.request_ids
        places = {request_id: i for i, request_id in enumerate(ids)}
        outcomes = zip(result.finish_reasons, result.stop_reasons, result.errors, strict=True)
        ends = {i: end for i, end in enumerate(outcomes) if end[0] is not None}
        parents = {i: places[p] for i, p in enumerate(result.parent_ids) if p != ids[i]}
        has_text = self.scheduler.vocabulary.tokenizer is not None and any(part != "" for part in result.text)
        logprobs = result.logprobs
        tables = {} if logprobs is None else dict(logprobs.by_mode)
        details = Details(result.text if has_text else [], ends, parents, list(result.skipped), tables)
        return RankAnswer(result.token_ids, np.array(result.seeds, np.uint64), details)


def _ended(record: Record, request_id: RequestId, error: str) -> Record:
    return Record(
        request_id,
        prompt_token_ids=record.prompt_token_ids,
        token_ids=record.token_ids,
        text=record.text,
        finish_reason="error",
        stop_reason=None,
        error=error,
        seed=record.seed,
    )
