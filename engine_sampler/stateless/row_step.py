"""`RowStep`: a step in which faulty rows do not end their requests, and masks come with the logits;
`StandingStep`: one that leaves its requests as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..arithmetic import LogitRows
from ..contract import Batch, Group, unpack_bitmask
from ..requests.slots import Slots
from ..scheduler.judging import Judgement
from ..scheduler.row_plans import Round
from ..scheduler.step import Step


class MaskedGroups:
    """The groups of a batch for steps with masks, kept while the batch stays."""

    def __init__(self) -> None:
        self._source: Sequence[Group] = ()
        self._groups: list[Group] = []
        self._cache: dict[Any, Any] = {}

    def of(self, groups: list[Group]) -> tuple[list[Group], dict[Any, Any]]:
        """`groups`, all masked, and what the backend keeps for them."""
        if self._source is not groups:
            self._source, self._groups, self._cache = groups, _masked(groups), {}
        return self._groups, self._cache


class WithMasks:
    """The masks of a step.

    bitmask  int32 [rows, ceil(vocab / 32)], bit 1 = allowed, one row for each row of logits.
    kept     the groups of the last step with masks.
    """

    def __init__(self, bitmask: np.ndarray, kept: MaskedGroups) -> None:
        self.bitmask = bitmask
        self._kept = kept

    def put(self, batch: Batch, is_whole: bool) -> None:
        """Give a batch without masks these."""
        batch.bitmask = self.bitmask
        if is_whole:
            batch.groups, batch.cache = self._kept.of(batch.groups)
        else:
            batch.groups = _masked(batch.groups)


class ProcessedRows:
    """Where the rows of a step go after their chains, before a choice, round by round.

    out      float32 [rows, vocab], NaN for a row without a round, and for one that fails.
    process  called with requests and a row for each.
    """

    def __init__(self, out: np.ndarray, process: Callable[..., np.ndarray], masks: WithMasks | None) -> None:
        self._out, self._process, self._masks = out, process, masks

    def add(self, drawing: Round, logits: LogitRows, slots: Slots) -> None:
        """Process the rows of a round."""
        rows = drawing.rows.tolist()
        if not rows:
            return
        logits.fetch(rows)
        values = np.stack([logits.row(i) for i in rows])
        if self._masks is not None:
            for value, words in zip(values, self._masks.bitmask[rows], strict=True):
                value[~unpack_bitmask(words, len(value))] = -np.inf
        inputs = drawing.inputs
        alone = inputs.part(slots, inputs.all_indices) if inputs.skipped else inputs
        self._out[rows] = self._process(alone, LogitRows(values, logits.vocab_size))


class RowStep(Step):
    """A step of requests that their owner alone ends, and which have no grammars."""

    def __init__(
        self, *args: Any, masks: WithMasks | None, process: ProcessedRows | None, **keywords: Any
    ) -> None:
        super().__init__(*args, **keywords)
        self._with_masks = masks
        self.may_draw_ahead, self.may_go_on = masks is None, process is None
        self._process = process

    def run(self, drawing: Round) -> None:
        if self._process is not None:
            self._process.add(drawing, self._logits, self._slots)
        super().run(drawing)

    def _batch(self, drawing: Round, bitmask: np.ndarray | None, left_out: Sequence[int]) -> Batch:
        batch = super()._batch(drawing, bitmask, left_out)
        if self._with_masks is not None:
            self._with_masks.put(batch, drawing.is_whole and not left_out)
        return batch


class StandingStep(Step):
    """A step that draws and advances nobody: only requests whose rows are faulty end. None has a grammar."""

    def _advance(self, drawing: Round, batch: Batch, judged: Judgement, closing: Sequence[int]) -> None:
        tokens = self.outputs.token_ids[drawing.rows].view(np.uint64)
        if len(tokens) and not judged.refused and tokens.max() >= self._slots.vocabulary.size:
            judged = self._judge(drawing, batch)
        self.may_have_ended.update(drawing.members[i] for i in judged.refused)
        for i in drawing.inputs.steered:
            drawing.inputs.requests[i].phases.is_closing = False


def _masked(groups: Sequence[Group]) -> list[Group]:
    return [replace(group, masked=True) for group in groups]
