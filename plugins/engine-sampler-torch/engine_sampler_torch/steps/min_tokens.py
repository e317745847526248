"""min_tokens: do not end the text too early."""

from __future__ import annotations

import numpy as np

from engine_sampler import Rows
from engine_sampler.samplers.min_tokens import MinTokens, is_early

from ._edits import remove_unless_empty
from ._inputs import id_table, of_resolved
from .base import Block, DeviceStep, Given

_CORE = MinTokens()


class MinTokensStep(DeviceStep):
    name = "min_tokens"
    may_fail = False

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {
            "ids": of_resolved(_CORE, "ids", rows, lambda lists: id_table(lists, rows)),
            "early": np.array([is_early(rows, i) for i in range(len(rows))]),
        }

    def apply(self, block: Block, given: Given, fixed: None) -> None:
        remove_unless_empty(block, given["ids"], given["early"])
