"""smoothing: bend the logits along a quadratic or cubic curve of their distance from the best one."""

from __future__ import annotations

import numpy as np
import torch

from engine_sampler.contract import Rows
from engine_sampler.for_backends import smoothing_cube, smoothing_square

from ...arithmetic import NEGATIVE_INFINITY, settled
from ..base import Block, DeviceStep, Given


class SmoothingStep(DeviceStep):
    name = "smoothing"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {
            "square": rows.derived("smoothing's square", smoothing_square),
            "cube": rows.derived("smoothing's cube", smoothing_cube),
        }

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        removed = block.values == NEGATIVE_INFINITY
        peak = block.values.amax(1, keepdim=True).to(torch.float64)
        d = block.values.to(torch.float64).sub_(peak)
        square = d * d
        cube = d.mul_(square)
        square *= tensors["square"][:, None]
        cube *= tensors["cube"][:, None]
        bent = settled(peak - square + cube).to(torch.float32)
        block.replace(bent.masked_fill_(removed, NEGATIVE_INFINITY))
