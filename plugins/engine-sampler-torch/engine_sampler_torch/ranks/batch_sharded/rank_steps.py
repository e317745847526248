"""`RankSteps`: the steps of one rank, and what is under way between it and the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from engine_sampler import BegunStep, StepResult
from engine_sampler.for_backends import RequestId

from ..errors import RankError
from ..shards import DTYPES
from .announcement import Announcement, Meeting
from .ledger import Ledger, StepPlan
from .owner import Owner
from .rank_step import RankStep
from .row_move import RowMove
from .soundness import Soundness

_BEGUN = (
    "a step has begun, and is not finished: "
    "only add, add_group, accept, remove, record, best and announce are possible then"
)


class RankSteps:
    """Announces, begins and finishes steps, and has ranks agree on all calls that communicate.

    One message at most is under way while a rank does other things: that of an announcement, or that beside
    the logits of a step which was announced and has begun. It is waited for before any other is sent.
    """

    def __init__(self, meeting: Meeting, owner: Owner, ledger: Ledger, soundness: Soundness) -> None:
        self._meeting, self._owner, self._ledger, self._soundness = meeting, owner, ledger, soundness
        self._announcement: Announcement | None = None
        self._begun: RankStep | None = None
        """The step that has begun, and is not finished."""
        self._pending: Callable[[], None] | None = None
        """Waits for the message beside the logits, if it is under way."""
        self._like: torch.Tensor | None = None
        """An empty tensor like the logits of the last step."""

    def announce(self, request_ids: Sequence[RequestId] | None, drafts: Any) -> None:
        """`BatchShardedScheduler.announce`."""
        before = self._announced()
        plan = self._ledger.plan(request_ids, drafts)
        facts = self._ledger.facts(plan, -1 if self._like is None else DTYPES.index(self._like.dtype))
        self._announcement = self._meeting.announce(plan, facts, self._like, before)

    def step(self, logits: torch.Tensor, request_ids: Sequence[RequestId] | None, drafts: Any) -> StepResult:
        """`BatchShardedScheduler.step`."""
        step = self._moved("step", logits, request_ids, drafts)
        self._settle()
        return step.run()

    def begin(self, logits: torch.Tensor, request_ids: Sequence[RequestId] | None, drafts: Any) -> BegunStep:
        """`BatchShardedScheduler.begin`."""
        step = self._moved("begin", logits, request_ids, drafts)
        tokens = step.begin()
        self._begun = step
        return BegunStep(tokens, step.is_done, partial(self._finish, step), partial(self._give_up, step))

    def agree(self, call: str, facts: Callable[[], Mapping[str, int]], describe: Callable[[], str]) -> None:
        """`Exchange.agree`, for a call that is no step."""
        self._agree(call, facts, describe, self._announced())

    def check_idle(self) -> None:
        """Raise RuntimeError if a step has begun."""
        if self._begun is not None:
            raise RuntimeError(_BEGUN)

    # --- inside ----------------------------------------------------------------------------------

    def _agree(
        self,
        call: str,
        facts: Callable[[], Mapping[str, int]],
        describe: Callable[[], str],
        announced: Announcement | None,
    ) -> None:
        """`Exchange.agree`, for a call that is not the step which was `announced`."""
        with self._together():
            meet = None if announced is None else announced.join
            self._meeting.control.agree(call, facts, describe, meet)

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Around what all ranks must do together: where they do not, a step that has begun is given up."""
        try:
            yield
        except BaseException as error:
            self._announcement = None
            if self._begun is not None and RankError in (type(error), type(error.__cause__)):
                self._give_up(self._begun)
            raise

    def _settle(self) -> None:
        """Wait for the message that is under way, if one is."""
        pending, self._pending = self._pending, None
        with self._together():
            if pending is not None:
                pending()
            if self._announcement is not None:
                self._announcement.settle(self._ledger)

    def _announced(self) -> Announcement | None:
        """The step that all ranks have announced; None without one."""
        self._settle()
        announced, self._announcement = self._announcement, None
        return announced

    def _moved(
        self, call: str, logits: torch.Tensor, request_ids: Sequence[RequestId] | None, drafts: Any
    ) -> RankStep:
        """A step whose plan is that of all ranks, and whose rows have moved."""
        announced, plan = self._announced(), None
        if announced is not None and self._begun is None:
            plan = announced.plan_of(self._ledger, request_ids, drafts, logits)
        move: RowMove | None
        if announced is not None and plan is not None:
            move, self._pending = announced.exchange(call, plan, logits, self._soundness.check)
        else:
            plan, move = self._agreed(call, logits, request_ids, drafts, announced)
            if plan.rows:
                move.exchange(self._meeting.group)
        if move is not None:
            self._like = logits.new_empty(0)
        assert self._like is not None  # what is announced before the first step is not done as announced
        device = self._like.device
        return RankStep(self._meeting, self._owner, self._ledger, self._soundness, plan, move, device)

    def _agreed(
        self,
        call: str,
        logits: torch.Tensor,
        request_ids: Sequence[RequestId] | None,
        drafts: Any,
        announced: Announcement | None,
    ) -> tuple[StepPlan, RowMove]:
        """The plan of a step, which is that of all ranks, and this rank's logits, ready to be sent."""
        prepared: list[tuple[StepPlan, RowMove]] = []

        def facts() -> dict[str, int]:
            self._soundness.check()
            self.check_idle()
            plan = self._ledger.plan(request_ids, drafts)
            move = self._meeting.move(plan, logits, call)
            prepared.append((plan, move))
            return self._ledger.facts(plan, DTYPES.index(move.dtype))

        def described() -> str:
            plan, move = prepared[0]
            return f"{plan.rows} rows of {move.dtype} for {plan.described()}; {self._ledger.described()}"

        self._agree(call, facts, described, announced)
        return prepared[0]

    def _finish(self, step: RankStep, _: float) -> StepResult:
        """Finish a step that has begun, if all ranks do."""

        def facts() -> dict[str, int]:
            self._soundness.check()
            if self._begun is not step:
                raise RuntimeError("the step is over: it has been given up")
            return {}

        try:
            self._settle()
            self._agree("finish", facts, str, self._announcement)
            return step.finish()
        finally:
            self._give_up(step)

    def _give_up(self, step: RankStep) -> None:
        """Leave what is not finished of a step."""
        step.give_up()
        if self._begun is step:
            self._begun = None
