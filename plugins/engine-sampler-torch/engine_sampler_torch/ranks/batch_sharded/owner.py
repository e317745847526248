"""`Owner`: the requests that one rank owns, in a `Scheduler` of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from engine_sampler import BegunStep, Record, Scheduler, StepResult
from engine_sampler.for_backends import INTERRUPTIONS, RequestId, text_of

from .answers import RankAnswer
from .ledger import Guesses, StepPlan
from .row_move import uploaded


@dataclass(frozen=True, eq=False)
class RankShare:
    """What of a step one rank does: rows of requests that it owns.

    ids, drafts  of its requests that are in its scheduler; drafts as keywords of a step.
    which, rows  their numbers and those of their rows among all that it owns, int64.
    requests, all_rows  how many it owns.
    others       those that are not in the scheduler, by number: the record of one that it could not add, None
                 for one that has been removed.
    """

    ids: list[RequestId]
    drafts: dict[str, Any]
    which: np.ndarray
    rows: np.ndarray
    requests: int
    all_rows: int
    others: dict[int, Record | None]

    def of(self, logits: Tensor) -> Tensor:
        """The rows of the requests in the scheduler, of all that the rank owns."""
        return logits[uploaded(self.rows, logits.device)] if self.others else logits

    def spread(self, token_ids: Tensor) -> Tensor:
        """The tokens of these rows among those of all, −1 for the others."""
        if not self.others:
            return token_ids
        whole = token_ids.new_full((self.all_rows,), -1)
        return whole.index_copy_(0, uploaded(self.rows, whole.device), token_ids)


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

    def share(self, plan: StepPlan, rank: int) -> RankShare:
        """What of a step this rank does, whose number is `rank`."""
        owned = plan.by_owner[rank]
        entries = [plan.entries[i] for i in owned.tolist()]
        is_there = np.array([e.id not in self._refused and not e.is_removed for e in entries], bool)
        which, counts = np.flatnonzero(is_there), plan.counts[owned]
        drafts = None if plan.drafts is None else [plan.drafts[i] for i in owned[which].tolist()]
        return RankShare(
            ids=[entries[i].id for i in which.tolist()],
            drafts={} if drafts is None else _apart(drafts),
            which=which,
            rows=np.flatnonzero(np.repeat(is_there, counts)),
            requests=len(entries),
            all_rows=int(counts.sum()),
            others={i: self._refused.get(entries[i].id) for i in np.flatnonzero(~is_there).tolist()},
        )

    def step(self, share: RankShare, logits: Tensor) -> StepResult | None:
        """Do this rank's share of a step, whose rows are `logits` [all_rows, vocab]; None if no request of it
        is here. If it raises, nothing has changed."""
        return self.scheduler.step(share.of(logits), share.ids, **share.drafts) if share.ids else None

    def begin(self, share: RankShare, logits: Tensor) -> BegunStep | None:
        """The first half of `step`."""
        return self.scheduler.begin(share.of(logits), share.ids, **share.drafts) if share.ids else None

    def answer(self, share: RankShare, result: StepResult | None) -> RankAnswer:
        """The answer about all requests of a share, from the result of `step`."""
        if result is None:
            answer = RankAnswer.empty(0, 0)
        else:
            answer = RankAnswer.of(result, self.scheduler.vocabulary.tokenizer is not None)
        if share.others:
            answer = answer.spread(share.which, share.rows, share.requests, share.all_rows)
            for place, record in share.others.items():
                answer.tell_end(place, record)
        return answer


def _apart(drafts: Sequence[Guesses]) -> dict[str, Any]:
    """Drafts as a step takes them."""
    chains = [token_ids if parents is None else () for token_ids, parents in drafts]
    trees = [None if guesses[1] is None else guesses for guesses in drafts]
    return {"draft_token_ids": chains} | ({"draft_trees": trees} if any(trees) else {})


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
