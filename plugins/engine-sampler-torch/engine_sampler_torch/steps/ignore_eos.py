"""ignore_eos: never end the text."""

from __future__ import annotations

import numpy as np

from engine_sampler import Rows
from engine_sampler.samplers.ignore_eos import IgnoreEos

from ._edits import remove_unless_empty
from ._inputs import id_table, of_resolved
from .base import Block, DeviceStep, Given

_CORE = IgnoreEos()


class IgnoreEosStep(DeviceStep):
    name = "ignore_eos"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"ids": of_resolved(_CORE, "ids", rows, lambda lists: id_table(lists, rows))}

    def apply(self, block: Block, given: Given, fixed: None) -> None:
        remove_unless_empty(block, given["ids"])
