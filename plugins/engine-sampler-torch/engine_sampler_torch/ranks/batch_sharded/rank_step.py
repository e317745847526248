"""`RankStep`: one step on one rank, from its logits' arrival to the result of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from engine_sampler import BegunStep, StepResult

from ..errors import RankError
from .announcement import Meeting
from .answers import AnswerLayout
from .device_tokens import is_given
from .ledger import Ledger, StepPlan
from .merging import merged
from .owner import Owner, RankShare
from .row_move import RowMove
from .soundness import Soundness


class RankStep:
    """A step whose rows have moved to their owners: done by `run`, or by `begin` and `finish`.

    move    the rows; None on a rank that had no logits to give, which the other ranks learn from the message
            beside them.
    device  where the logits lie.
    """

    def __init__(
        self,
        meeting: Meeting,
        owner: Owner,
        ledger: Ledger,
        soundness: Soundness,
        plan: StepPlan,
        move: RowMove | None,
        device: torch.device,
    ) -> None:
        self._meeting, self._owner, self._ledger, self._soundness = meeting, owner, ledger, soundness
        self._plan, self._move, self._device = plan, move, device
        self._begun: BegunStep | None = None
        """This rank's share, if it has begun one."""
        self._failure: BaseException | None = None
        """Why it could not."""
        self._is_on_device = False
        """Whether its tokens will be on the device."""

    def run(self) -> StepResult:
        """The whole step; raises what `BatchShardedScheduler.step` does."""
        return self._answered(lambda: self._owner.step(self._share, self._whole), self._uploaded)

    def begin(self) -> Tensor:
        """Begin this rank's share, and gather the tokens of all ranks on the device: int64 [rows]. Whatever
        fails is raised by `finish`, so that all ranks come to the same messages."""
        self._tokens = self._meeting.tokens.gather(
            self._plan, self._meeting.control.rank, self._begin(), self._device
        )
        return self._tokens

    def finish(self) -> StepResult:
        """The rest of the step; raises what `run` does."""
        return self._answered(self._finish, self._gathered)

    def give_up(self) -> None:
        """Do not finish this rank's share."""
        if self._begun is not None:
            self._begun.give_up()

    def is_done(self) -> bool:
        """Whether the device of this rank need not be waited for."""
        return self._begun is None or self._begun.is_done

    # --- inside ----------------------------------------------------------------------------------

    @cached_property
    def _share(self) -> RankShare:
        return self._owner.share(self._plan, self._meeting.control.rank)

    @property
    def _whole(self) -> Tensor:
        assert self._move is not None
        return self._move.whole()

    def _begin(self) -> Any:
        """This rank's tokens on the device; None if they will not be there."""
        if self._move is None:
            return None
        try:
            self._begun = begun = self._owner.begin(self._share, self._whole)
            there = None if begun is None else begun.token_ids_on_device
            own = None if there is None else self._share.spread(there)
            rank = self._meeting.control.rank
            self._is_on_device = begun is None or is_given(self._plan, rank, own, self._device)
        except BaseException as error:
            self._failure = error
            return None
        return own

    def _finish(self) -> StepResult | None:
        if self._failure is not None:
            raise self._failure
        result = None if self._begun is None else self._begun.finish()
        self._is_on_device &= result is None or result.token_ids_on_device is not None
        return result

    def _uploaded(self, result: StepResult, is_on_device: bool) -> Tensor:
        return torch.from_numpy(result.token_ids).to(self._device, copy=True)

    def _gathered(self, result: StepResult, is_on_device: bool) -> Tensor | None:
        return self._tokens if is_on_device else None

    def _answered(
        self,
        run: Callable[[], StepResult | None],
        on_device: Callable[[StepResult, bool], Tensor | None],
    ) -> StepResult:
        """The result of all ranks, from what `run` does of this rank's share. `on_device`: the tokens of the
        result there, by whether every owner has left its own there."""
        control, plan = self._meeting.control, self._plan
        vocab_size = self._meeting.shards.vocab_size
        has_text = self._owner.scheduler.vocabulary.tokenizer is not None
        layout = AnswerLayout(plan, vocab_size, has_text)
        blob = b""

        def answer() -> Tensor:
            nonlocal blob
            own = run()
            with self._soundness.guarded():
                answered = replace(self._owner.answer(self._share, own), is_on_device=self._is_on_device)
                blob = answered.details.packed()
                return layout.words(answered, blob)

        table = control.gather((layout.size,), answer)
        overflow = layout.overflow(table)
        blobs = control.blobs(blob, overflow) if overflow else []
        with self._soundness.guarded():
            answers = layout.read(table, blobs)
            result = merged(plan, answers, vocab_size, has_text)
            are_there = all(answered is not None and answered.is_on_device for answered in answers)
            result = replace(result, token_ids_on_device=on_device(result, are_there))
            self._ledger.follow(plan, result)
        try:
            control.settle()
        except RankError as error:
            error.result = result
            raise
        return result
