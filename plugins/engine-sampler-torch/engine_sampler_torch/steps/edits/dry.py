"""dry: lower the logits of tokens that would extend a repetition ("don't repeat yourself")."""

from __future__ import annotations

import numpy as np

from engine_sampler.contract import Rows
from engine_sampler.for_backends import dry_penalties

from ...arithmetic import settled
from .._inputs import id_table, table
from ..base import Block, DeviceStep, Given
from ._changes import edit


class DryStep(DeviceStep):
    name = "dry"
    may_fail = False
    histories_only = True
    searches = True
    sparse_ids = ("ids",)

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        with np.errstate(over="ignore"):  # as in the sampler, a penalty may be infinite
            ids, penalties = zip(*dry_penalties(rows), strict=True)
        return {"ids": id_table(ids, rows), "penalties": table(penalties, 0, np.float32)}

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        edit(block, tensors["ids"], lambda logits: settled(logits - tensors["penalties"]))
