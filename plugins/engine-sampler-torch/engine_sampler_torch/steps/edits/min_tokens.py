"""min_tokens: do not end the text too early."""

from __future__ import annotations

import numpy as np

from engine_sampler.contract import Rows
from engine_sampler.for_backends import is_below_min_tokens

from .._inputs import id_table
from ..base import Block, DeviceStep, Given
from ._changes import remove_unless_empty


class MinTokensStep(DeviceStep):
    name = "min_tokens"
    may_fail = False
    histories_only = True
    sparse_ids = ("ids",)

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {
            "ids": rows.derived("min_tokens ids", lambda group: id_table(group.resolved, group)),
            "early": np.array([is_below_min_tokens(rows, i) for i in range(len(rows))]),
        }

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        remove_unless_empty(block, tensors["ids"], tensors["early"])
