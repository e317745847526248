"""smoothing: bend the logits along a quadratic or cubic curve of their distance from the best one."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine_sampler.contract import Rows
from engine_sampler.for_backends import smoothing_cube, smoothing_square

from ...arithmetic import NEGATIVE_INFINITY, settled
from ..base import Block, FigureStep, Given


class SmoothingStep(FigureStep):
    name = "smoothing"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {
            "square": rows.derived("smoothing's square", smoothing_square),
            "cube": rows.derived("smoothing's cube", smoothing_cube),
        }

    def figure(self, block: Block, tensors: Given, fixed: None) -> Tensor:
        """The best logit, float64."""
        return block.values.amax(1).to(torch.float64)

    def apply_with(self, figure: Tensor, block: Block, tensors: Given, fixed: None) -> None:
        removed, has_gradient = block.values == NEGATIVE_INFINITY, block.values.requires_grad
        values = block.values.masked_fill(removed, 0.0) if has_gradient else block.values
        times = torch.mul if has_gradient else Tensor.mul_  # gradients need the factors as they were
        peak = figure[:, None]
        d = values.to(torch.float64) - peak
        square = d * d
        cube = times(d, square)
        square, cube = times(square, tensors["square"][:, None]), times(cube, tensors["cube"][:, None])
        bent = settled(peak - square + cube).to(torch.float32)
        block.replace(bent.masked_fill_(removed, NEGATIVE_INFINITY))
