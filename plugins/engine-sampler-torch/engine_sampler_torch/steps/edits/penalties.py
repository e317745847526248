"""penalties: make tokens that have already occurred less likely (repetition, frequency, presence)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.contract import Rows
from engine_sampler.for_backends import PenaltyWindows, occurrence_shift, repetition_factors

from ...arithmetic import settled
from .._inputs import id_table, table
from ..base import Block, DeviceStep, Given
from ._changes import edit


class PenaltiesStep(DeviceStep):
    name = "penalties"
    may_fail = False
    histories_only = True
    sparse_ids = ("repeated_ids", "counted_ids")

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        exempt = [ids for _, ids in rows.resolved]
        windows: list[PenaltyWindows] = rows.states
        with np.errstate(over="ignore"):  # as in the sampler, a penalty may be infinite
            repeated, q = _repeated(rows, windows, exempt)
            counted, counts = _without(exempt, [(w.counted.ids, w.counted.counts) for w in windows])
            frequency, presence = rows["frequency_penalty"], rows["presence_penalty"]
            shifts = occurrence_shift(table(counts, 0, np.int64), frequency[:, None], presence[:, None])
        return {
            "repeated_ids": id_table(repeated, rows),
            "factors": q,
            "counted_ids": id_table(counted, rows),
            "shifts": shifts,
        }

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        edit(block, tensors["repeated_ids"], lambda logits: settled(_divided(logits, tensors["factors"])))
        edit(block, tensors["counted_ids"], lambda logits: settled(logits - tensors["shifts"]))


def _repeated(
    rows: Rows, windows: Sequence[PenaltyWindows], exempt: Sequence[np.ndarray]
) -> tuple[Sequence[np.ndarray], np.ndarray]:
    """The repeated ids of each row, and their factors: float32 [n, e], or [n, 1] if they do not depend on
    age."""
    settings = [of_row for of_row, _ in rows.resolved]
    if any(of_row.slope for of_row in settings):
        pairs = enumerate(zip(settings, windows, strict=True))
        ids, q = _without(
            exempt, [repetition_factors(of_row, w.repeated, rows, i) for i, (of_row, w) in pairs]
        )
        return ids, table(q, 1, np.float32)
    ids, _ = _without(exempt, [(w.repeated.ids, w.repeated.ids) for w in windows])
    return ids, np.minimum(rows["repetition_penalty"], FLT_MAX).astype(np.float32)[:, None]


def _without(
    exempt: Sequence[np.ndarray], rows: Sequence[tuple[np.ndarray, np.ndarray]]
) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]]:
    """The ids of each row, and their values, without the ids that are `exempt` there."""
    if any(map(len, exempt)):
        concerned = [~np.isin(ids, some) for some, (ids, _) in zip(exempt, rows, strict=True)]
        rows = [(ids[c], values[c]) for c, (ids, values) in zip(concerned, rows, strict=True)]
    ids, values = zip(*rows, strict=True)
    return ids, values


def _divided(logits: Tensor, q: Tensor) -> Tensor:
    return torch.where(logits > 0, logits / q, logits * q)
