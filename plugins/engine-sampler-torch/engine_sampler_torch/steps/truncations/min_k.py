"""min_k: keep the tokens before the steepest drop of the sorted logits."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import pad

from engine_sampler.contract import Rows
from engine_sampler.for_backends import RANGE_FLOOR

from ..base import Block, DeviceStep, Given


class MinKStep(DeviceStep):
    name = "min_k"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"tau": rows["min_k_tau"]}

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        values = block.values.gather(1, block.order()).to(torch.float64)
        last = block.alive[:, None] - 1
        drops = (values - pad(values[:, 1:], (0, 1))) / (block.columns + 1).to(torch.float64)
        cliff = drops.masked_fill_(block.columns >= last, -1.0).argmax(1) + 1
        span = (values[:, 0] - values.gather(1, last)[:, 0]) + RANGE_FLOOR
        least = torch.minimum(tensors["tau"] / span, block.alive.to(torch.float64)).to(torch.int64)
        block.keep_leading(torch.maximum(cliff, least))
