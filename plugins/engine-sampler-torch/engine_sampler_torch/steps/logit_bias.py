"""logit_bias: make individual tokens more or less likely."""

from __future__ import annotations

import numpy as np

from engine_sampler import Rows
from engine_sampler.samplers.logit_bias import LogitBias

from ..arithmetic import NEGATIVE_INFINITY, settled
from ._edits import edit
from ._inputs import id_table, of_resolved, table
from .base import Block, DeviceStep, Given

_CORE = LogitBias()


class LogitBiasStep(DeviceStep):
    name = "logit_bias"
    parameters_only = True
    sparse_ids = ("ids",)

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {
            "ids": of_resolved(_CORE, "ids", rows, lambda pairs: id_table([ids for ids, _ in pairs], rows)),
            "biases": of_resolved(
                _CORE, "biases", rows, lambda pairs: table([b for _, b in pairs], 0, np.float32)
            ),
        }

    def apply(self, block: Block, given: Given, fixed: None) -> None:
        biases = given["biases"]
        removing = biases == NEGATIVE_INFINITY
        edit(
            block,
            given["ids"],
            lambda logits: settled(logits + biases).masked_fill_(removing, NEGATIVE_INFINITY),
        )
