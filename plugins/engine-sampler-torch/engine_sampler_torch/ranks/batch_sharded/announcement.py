"""`Announcement`: the next step, on which all ranks agree while the forward pass runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from ..exchange import Agreement, Exchange, digest
from ..shards import VocabularyShards
from .device_tokens import DeviceTokens
from .ledger import Ledger, StepPlan
from .row_move import RowMove, RowRoom

_AS_ANNOUNCED = {call: f"{call} as announced" for call in ("step", "begin")}
"""The names of the calls of ranks that send their logits at once."""


@dataclass(frozen=True, eq=False)
class Meeting:
    """Where a rank meets the others.

    control  for messages; `group`, for logits, and for `tokens` on the device.
    """

    control: Exchange
    group: dist.ProcessGroup | None
    shards: VocabularyShards
    room: RowRoom
    tokens: DeviceTokens

    def move(self, plan: StepPlan, logits: torch.Tensor, call: str) -> RowMove:
        """This rank's logits, ready to be sent, and what else the `call`, "step" or "begin", needs."""
        move = RowMove(self.shards, self.control.rank, plan, logits, self.room)
        if call == "begin":
            self.tokens.prepare(plan, logits.device)
        return move

    def announce(
        self,
        plan: StepPlan,
        facts: Mapping[str, int],
        like: torch.Tensor | None,
        before: Announcement | None,
    ) -> Announcement:
        """Tell the other ranks of the next step. `like`: an empty tensor of the dtype and on the device of
        this rank's logits in the step before; None before the first step. `before`: the announcement in whose
        place this one comes."""
        agreement = self.control.begin_to_agree("announce", lambda: facts)
        return Announcement(self, plan, facts, like, agreement, before)


@dataclass(eq=False)
class Announcement:
    """A step that has been announced.

    facts      what all ranks have agreed on, once the `agreement` is settled.
    agreement  None once it is settled, and `before`, see `Meeting.announce`, too.
    """

    meeting: Meeting
    plan: StepPlan
    facts: Mapping[str, int]
    like: torch.Tensor | None
    agreement: Agreement | None
    before: Announcement | None

    def settle(self, ledger: Ledger) -> None:
        """Wait until all ranks have announced it; raises `RankError` if some have not."""
        agreement, self.agreement = self.agreement, None
        before, self.before = self.before, None
        if agreement is not None:
            meet = None if before is None else before.join
            agreement.settle(lambda: f"{self.plan.described()}; {ledger.described()}", meet)

    def plan_of(
        self, ledger: Ledger, request_ids: Sequence[Any] | None, drafts: Any, logits: Any
    ) -> StepPlan | None:
        """The plan of a step, if it is the one that was announced, as far as this rank knows; else None."""
        dtype = getattr(logits, "dtype", None)
        if self.like is None or (dtype is not None and dtype != self.like.dtype):
            return None
        if ledger.calls != self.facts["calls"]:
            return None
        try:
            plan = ledger.plan(request_ids, drafts)
        except Exception:  # `agree` tells the other ranks
            return None
        return plan if plan.is_that_of(self.plan) else None

    def exchange(
        self, call: str, plan: StepPlan, logits: torch.Tensor, check: Callable[[], None]
    ) -> tuple[RowMove | None, Callable[[], None]]:
        """Send this rank's logits, and receive those of others, in a `call` of "step" or "begin"; `plan` is
        what `plan_of` has given. Whether every rank can send its own, after `check`, is known while they are
        on their way: what is returned second waits for that, and raises. Without logits of its own, a rank
        sends zeros, and gets no rows."""
        moves: list[RowMove] = []

        def facts() -> Mapping[str, int]:
            check()
            moves.append(self.meeting.move(plan, logits, call))
            return self.facts

        agreement = self.meeting.control.begin_to_agree(_AS_ANNOUNCED[call], facts)
        if plan.rows:
            (moves[0] if moves else self._without_logits()).exchange(self.meeting.group)
        meet = self._join_tokens if call == "step" else None
        return moves[0] if moves else None, partial(agreement.settle, plan.described, meet)

    def join(self, calls: Sequence[int]) -> None:
        """Take part in that exchange, if one of the `calls` of all ranks says that it has begun, although
        this rank does something else: the others do not wait for ever then, and learn of it."""
        if self.plan.rows and any(digest(call) in calls for call in _AS_ANNOUNCED.values()):
            self._without_logits().exchange(self.meeting.group)
        self._join_tokens(calls)

    def _join_tokens(self, calls: Sequence[int]) -> None:
        """Take part in the gathering of tokens of ranks that begin the step."""
        if digest(_AS_ANNOUNCED["begin"]) in calls:
            assert self.like is not None
            self.meeting.tokens.gather(self.plan, self.meeting.control.rank, None, self.like.device)

    def _without_logits(self) -> RowMove:
        """Zeros in the place of this rank's logits, which nobody will use."""
        assert self.like is not None
        shards, rank = self.meeting.shards, self.meeting.control.rank
        shape = self.plan.rows, shards.sizes[rank] + shards.padding[rank]
        return self.meeting.move(self.plan, self.like.new_zeros(shape), "step")
