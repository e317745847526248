"""top_a: drop tokens with a probability below a times the square of the best one."""

from __future__ import annotations

import numpy as np
import torch

from engine_sampler.arithmetic import ONE_WEIGHT
from engine_sampler.contract import Rows

from ...arithmetic import constant, weight_of_share
from ..base import Block, DeviceStep, Given


class TopAStep(DeviceStep):
    name = "top_a"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"a": rows["top_a"]}

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        total = block.total.to(torch.float64)
        best = constant(ONE_WEIGHT, total) / total
        block.keep_heavy(weight_of_share(tensors["a"] * (best * best), block.total))
