"""ignore_eos: never end the text."""

from __future__ import annotations

import numpy as np

from engine_sampler.contract import Rows

from .._inputs import id_table
from ..base import Block, DeviceStep, Given
from ._changes import remove_unless_empty


class IgnoreEosStep(DeviceStep):
    name = "ignore_eos"
    may_fail = False
    sparse_ids = ("ids",)
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"ids": rows.derived("ignore_eos ids", lambda group: id_table(group.resolved, group))}

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        remove_unless_empty(block, tensors["ids"])
