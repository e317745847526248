"""`Announcement`: the next step, on which all ranks agree while the forward pass runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ..exchange import Agreement, Exchange, digest
from ..shards import VocabularyShards
from .ledger import Ledger, StepPlan
from .row_move import RowMove, RowRoom

_GOES_ON = "step as announced"
"""The name of the call of ranks that send their logits at once."""


@dataclass(frozen=True, eq=False)
class Meeting:
    """Where a rank meets the others.

    control  for messages; `group`, for logits.
    """

    control: Exchange
    group: dist.ProcessGroup | None
    shards: VocabularyShards
    room: RowRoom

    def move(self, plan: StepPlan, logits: torch.Tensor) -> RowMove:
        """This rank's logits, ready to be sent."""
        return RowMove(self.shards, self.control.rank, plan, logits, self.room)

    def agree(
        self,
        call: str,
        facts: Callable[[], Mapping[str, int]],
        describe: Callable[[], str],
        announced: Announcement | None,
    ) -> None:
        """`Exchange.agree`, for a call that is not the step which was `announced`."""
        self.control.agree(call, facts, describe, None if announced is None else announced.join)

    def announce(self, plan: StepPlan, facts: Mapping[str, int], like: torch.Tensor | None) -> Announcement:
        """Tell the other ranks of the next step. `like`: an empty tensor of the dtype and on the device of
        this rank's logits in the step before; None before the first step."""
        agreement = self.control.begin_to_agree("announce", lambda: facts)
        return Announcement(self, plan, facts, like, agreement)


@dataclass(eq=False)
class Announcement:
    """A step that has been announced.

    facts      what all ranks have agreed on, once the `agreement` is settled.
    """

    meeting: Meeting
    plan: StepPlan
    facts: Mapping[str, int]
    like: torch.Tensor | None
    agreement: Agreement

    def settle(self, ledger: Ledger) -> None:
        """Wait until all ranks have announced it; raises `RankError` if some have not."""
        self.agreement.settle(lambda: f"{self.plan.described()}; {ledger.described()}")

    def holds(self, ledger: Ledger, request_ids: Sequence[Any] | None, drafts: Any, logits: Any) -> bool:
        """Whether a step is the one that was announced, as far as this rank knows."""
        dtype = getattr(logits, "dtype", None)
        if self.like is None or (dtype is not None and dtype != self.like.dtype):
            return False
        if ledger.calls != self.facts["calls"]:
            return False
        try:
            plan = ledger.plan(request_ids, drafts)
        except Exception:  # `agree` tells the other ranks
            return False
        return plan is self.plan or plan.digest == self.facts["rows"]

    def exchange(self, logits: torch.Tensor, check: Callable[[], None]) -> RowMove:
        """Send this rank's logits, and receive those of others. Whether every rank can send its own, after
        `check`, is known while they are on their way."""
        moves: list[RowMove] = []

        def facts() -> Mapping[str, int]:
            check()
            moves.append(self.meeting.move(self.plan, logits))
            return self.facts

        agreement = self.meeting.control.begin_to_agree(_GOES_ON, facts)
        move = moves[0] if moves else self._without_logits()
        if self.plan.rows:
            move.exchange(self.meeting.group)
        agreement.settle(self.plan.described)
        return move

    def join(self, calls: Sequence[int]) -> None:
        """Take part in that exchange, if one of the `calls` of all ranks says that it has begun, although
        this rank does something else: the others do not wait for ever then, and learn of it."""
        if digest(_GOES_ON) in calls and self.plan.rows:
            self._without_logits().exchange(self.meeting.group)

    def _without_logits(self) -> RowMove:
        """Zeros in the place of this rank's logits, which nobody will use."""
        assert self.like is not None
        shards, rank = self.meeting.shards, self.meeting.control.rank
        shape = self.plan.rows, shards.sizes[rank] + shards.padding[rank]
        return self.meeting.move(self.plan, self.like.new_zeros(shape))
