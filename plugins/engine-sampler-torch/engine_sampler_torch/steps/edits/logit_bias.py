"""logit_bias: make individual tokens more or less likely."""

from __future__ import annotations

import numpy as np

from engine_sampler.contract import Rows

from ...arithmetic import NEGATIVE_INFINITY, settled
from .._inputs import id_table, table
from ..base import Block, DeviceStep, Given
from ._changes import edit


class LogitBiasStep(DeviceStep):
    name = "logit_bias"
    parameters_only = True
    sparse_ids = ("ids",)

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {
            "ids": rows.derived("logit_bias ids", _ids),
            "biases": rows.derived("logit_bias biases", _biases),
        }

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        biases = tensors["biases"]
        removing = biases == NEGATIVE_INFINITY
        edit(
            block,
            tensors["ids"],
            lambda logits: settled(logits + biases).masked_fill_(removing, NEGATIVE_INFINITY),
        )


def _ids(rows: Rows) -> np.ndarray:
    return id_table([ids for ids, _ in rows.resolved], rows)


def _biases(rows: Rows) -> np.ndarray:
    return table([biases for _, biases in rows.resolved], 0, np.float32)
