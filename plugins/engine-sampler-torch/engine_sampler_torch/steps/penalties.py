"""penalties: make tokens that have already occurred less likely (repetition, frequency, presence)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine_sampler import Rows
from engine_sampler.samplers.penalties import factors, shift

from ..arithmetic import settled
from ._edits import edit
from ._inputs import id_table, table
from .base import Block, DeviceStep, Given


class PenaltiesStep(DeviceStep):
    name = "penalties"
    may_fail = False
    sparse_ids = ("repeated_ids", "counted_ids")

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        repeated, counted = [], []
        with np.errstate(over="ignore"):  # as in the sampler, a penalty may be infinite
            for i, ((settings, exempt), windows) in enumerate(zip(rows.resolved, rows.states, strict=True)):
                repeated.append(_without(exempt, *factors(settings, windows.repeated, rows, i)))
                shifts = shift(windows.counted.counts, settings.frequency, settings.presence)
                counted.append(_without(exempt, windows.counted.ids, shifts))
        falling = any(settings.slope for settings, _ in rows.resolved)
        return {
            "repeated_ids": id_table([ids for ids, _ in repeated], rows),
            "factors": _factors([q for _, q in repeated], falling),
            "counted_ids": id_table([ids for ids, _ in counted], rows),
            "shifts": table([shifts for _, shifts in counted], 0, np.float32),
        }

    def apply(self, block: Block, given: Given, fixed: None) -> None:
        edit(block, given["repeated_ids"], lambda logits: settled(_divided(logits, given["factors"])))
        edit(block, given["counted_ids"], lambda logits: settled(logits - given["shifts"]))


def _factors(lists: list[np.ndarray], falling: bool) -> np.ndarray:
    """The factors of each row, float32 [n, e], where they fall with age; otherwise one for all, [n, 1]."""
    if falling:
        return table(lists, 1, np.float32)
    return np.array([q[:1] if len(q) else [1] for q in lists], np.float32)


def _without(exempt: np.ndarray, ids: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`ids` and their `values` without the ids that are `exempt`."""
    if not len(exempt):
        return ids, values
    concerned = ~np.isin(ids, exempt)
    return ids[concerned], values[concerned]


def _divided(logits: Tensor, q: Tensor) -> Tensor:
    return torch.where(logits > 0, logits / q, logits * q)
