"""top_h: keep the likeliest tokens that hold a share of the row's entropy."""

from __future__ import annotations

import numpy as np
import torch

from engine_sampler.contract import Rows

from ...arithmetic import information, log2_mass
from ..base import Block, DeviceStep, Given


class TopHStep(DeviceStep):
    name = "top_h"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"share": rows["top_h"]}

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        level = log2_mass(block.total)
        u = information(block.weights, block.distances)
        entropy = level * block.total.to(torch.float64) + u.sum(1).to(torch.float64)
        limit = (tensors["share"] * entropy).masked_fill_(entropy <= 0, -1.0)
        mass = block.weights.gather(1, block.order()).cumsum(1).to(torch.float64)
        bits = u.gather(1, block.order()).cumsum(1).to(torch.float64)
        passing = level[:, None] * mass + bits <= limit[:, None]
        block.keep_leading(passing.sum(1).clamp_(min=1))
