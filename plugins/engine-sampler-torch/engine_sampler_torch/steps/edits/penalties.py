"""penalties: make tokens that have already occurred less likely (repetition, frequency, presence)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.contract import Rows
from engine_sampler.for_backends import (
    PenaltyWindows,
    counted_shifts,
    occurrence_shift,
    repetition_factors,
)

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
        with np.errstate(over="ignore"):  # as in the sampler, a penalty may be infinite
            repeated, q = _repeated(rows, exempt)
            counted, shifts = _counted(rows, exempt)
        return {
            "repeated_ids": id_table(repeated, rows),
            "factors": q,
            "counted_ids": id_table(counted, rows),
            "shifts": shifts,
        }

    def fixed(self, rows: Rows) -> bool:
        """Whether penalties of some row may fade: then the divisors precede the factors."""
        return bool(rows["penalty_decay_range"].any())

    def apply(self, block: Block, tensors: Given, fixed: bool) -> None:
        factors = tensors["factors"]
        divisors, factors = factors.chunk(2, 1) if fixed else (factors, factors)
        edit(block, tensors["repeated_ids"], lambda logits: settled(_divided(logits, divisors, factors)))
        edit(block, tensors["counted_ids"], lambda logits: settled(logits - tensors["shifts"]))


def _repeated(rows: Rows, exempt: Sequence[np.ndarray]) -> tuple[Sequence[np.ndarray], np.ndarray]:
    """The repeated ids of each row, and their factors: float32 [n, e], or [n, 1] if they do not depend on
    age; with penalties that fade [n, 2 e], divisors and factors."""
    settings, windows = _of_rows(rows)
    fading = rows["penalty_decay_range"].any()
    if fading or any(of_row.slope for of_row in settings):
        pairs = enumerate(zip(settings, windows, strict=True))
        found = [repetition_factors(of_row, w.repeated, rows, i) for i, (of_row, w) in pairs]
        ids, q = _without(exempt, [(ids, factors) for ids, _, factors in found])
        if not fading:
            return ids, table(q, 1, np.float32)
        _, divisors = _without(exempt, [(ids, divisors) for ids, divisors, _ in found])
        return ids, np.hstack([table(divisors, 1, np.float32), table(q, 1, np.float32)])
    ids, _ = _without(exempt, [(w.repeated.ids, w.repeated.ids) for w in windows])
    return ids, np.minimum(rows["repetition_penalty"], FLT_MAX).astype(np.float32)[:, None]


def _counted(rows: Rows, exempt: Sequence[np.ndarray]) -> tuple[Sequence[np.ndarray], np.ndarray]:
    """The counted ids of each row, and what is subtracted, float32 [n, e]."""
    settings, windows = _of_rows(rows)
    if rows["penalty_decay_range"].any():
        pairs = enumerate(zip(settings, windows, strict=True))
        ids, shifts = _without(
            exempt, [counted_shifts(of_row, w.counted, rows, i) for i, (of_row, w) in pairs]
        )
        return ids, table(shifts, 0, np.float32)
    ids, counts = _without(exempt, [(w.counted.ids, w.counted.counts) for w in windows])
    frequency, presence = rows["frequency_penalty"], rows["presence_penalty"]
    return ids, occurrence_shift(table(counts, 0, np.int64), frequency[:, None], presence[:, None])


def _of_rows(rows: Rows) -> tuple[list[Any], Sequence[PenaltyWindows]]:
    """The settings and the windows of each row."""
    return [of_row for of_row, _ in rows.resolved], rows.states


def _without(
    exempt: Sequence[np.ndarray], rows: Sequence[tuple[np.ndarray, np.ndarray]]
) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]]:
    """The ids of each row, and their values, without the ids that are `exempt` there."""
    if any(map(len, exempt)):
        concerned = [~np.isin(ids, some) for some, (ids, _) in zip(exempt, rows, strict=True)]
        rows = [(ids[c], values[c]) for c, (ids, values) in zip(concerned, rows, strict=True)]
    ids, values = zip(*rows, strict=True)
    return ids, values


def _divided(logits: Tensor, divisors: Tensor, factors: Tensor) -> Tensor:
    return torch.where(logits > 0, logits / divisors, logits * factors)
