"""grammar_bias: favour the tokens that a grammar allows, without forbidding any others."""

from __future__ import annotations

import numpy as np
import torch

from engine_sampler.contract import Rows
from engine_sampler.for_backends import favoured_ids

from ...arithmetic import NEGATIVE_INFINITY, settled
from .._inputs import bitmask_of
from ..base import Block, DeviceStep, Given


class GrammarBiasStep(DeviceStep):
    name = "grammar_bias"
    may_fail = False

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        biases = rows.derived("float32(grammar_bias)", lambda group: group["grammar_bias"].astype(np.float32))
        return {"favoured": bitmask_of(favoured_ids(rows), rows.vocabulary.size), "biases": biases}

    def reads_rows(self, fixed: None) -> bool:
        return False

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        favoured = block.allowed_by(tensors["favoured"]) & (block.values > NEGATIVE_INFINITY)
        lifted = settled(block.values + tensors["biases"][:, None])
        block.replace(torch.where(favoured, lifted, block.values))
