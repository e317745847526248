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
        removed = block.values == NEGATIVE_INFINITY
        peak = figure[:, None]
        d = block.values.masked_fill(removed, 0.0).to(torch.float64) - peak
        square = d * d
        bent = (peak - square * tensors["square"][:, None]).add_(square * d * tensors["cube"][:, None])
        block.replace(settled(bent).to(torch.float32).masked_fill_(removed, NEGATIVE_INFINITY))
