"""adaptive_p: draw tokens with a probability near a target."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine_sampler.contract import Rows
from engine_sampler.for_backends import (
    ADAPTIVE_PEAK,
    ADAPTIVE_SHARPNESS,
    ADAPTIVE_WIDTH,
    corrected_adaptive_target,
)

from ...arithmetic import NEGATIVE_INFINITY, constant, distances, pick_by_weight, weights
from .._inputs import draws
from ..base import Block, DeviceSelector, Given


class AdaptivePSelector(DeviceSelector):
    name = "adaptive_p"

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"draws": draws(rows), "target": corrected_adaptive_target(rows)}

    def select(self, block: Block, tensors: Given, fixed: None) -> tuple[Tensor, Tensor]:
        p = block.weights.to(torch.float64) / block.total.to(torch.float64)[:, None]
        reshaped = _reshaped(p, tensors["target"][:, None])
        reshaped.masked_fill_(block.values == NEGATIVE_INFINITY, NEGATIVE_INFINITY)
        columns = pick_by_weight(weights(distances(reshaped)), tensors["draws"])
        return columns, p.gather(1, columns[:, None])[:, 0]


def _reshaped(p: Tensor, target: Tensor) -> Tensor:
    """The logits l' of tokens with probabilities `p` [n, m], float32."""
    d = (p - target).abs_()
    d /= constant(ADAPTIVE_WIDTH, d)
    bent = (d * ADAPTIVE_SHARPNESS).mul_(d).div_(d + 1.0)
    return bent.neg_().add_(ADAPTIVE_PEAK).to(torch.float32)
