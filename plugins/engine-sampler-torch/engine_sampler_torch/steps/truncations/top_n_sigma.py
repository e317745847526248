"""top_n_sigma: keep logits within n standard deviations of the greatest."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from engine_sampler.contract import Rows
from engine_sampler.for_backends import SIGMA_CHUNK

from ...arithmetic import NEGATIVE_INFINITY, square_root, sum_in_order
from ..base import Block, DeviceStep, Given


class TopNSigmaStep(DeviceStep):
    name = "top_n_sigma"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"n": rows["top_n_sigma"]}

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        x = block.values - block.values.amax(1, keepdim=True)
        counted = x.masked_fill(block.values == NEGATIVE_INFINITY, 0.0)
        n = block.alive.to(torch.float64)
        sums = sums_by_id(block, torch.stack([counted, counted * counted]))
        mean, squares = sums[0] / n, sums[1]
        sigma = square_root((squares / n - mean * mean).clamp_(min=0.0))
        reach = (tensors["n"] * sigma).masked_fill_(~squares.isfinite(), float("inf"))
        block.keep_upper(x >= (-reach).to(torch.float32)[:, None])


def sums_by_id(block: Block, values: Tensor) -> Tensor:
    """Sums of float32 `values` [k, n, m] of each row of the block, in the order that the sampler describes;
    float64 [k, n]."""
    first, second, third, fourth = _chunks(block, values).reshape(*values.shape[:2], -1, 4, 4, 16).unbind(3)
    a, b, c, d = (((first + second) + third) + fourth).unbind(3)
    folded = sum_in_order(((a + b) + (c + d)).to(torch.float64).unbind(2))
    while folded.shape[2] > 1:
        low, high = folded.chunk(2, 2)
        folded = low + high
    return folded[:, :, 0]


def _chunks(block: Block, values: Tensor) -> Tensor:
    """`values` [k, n, m] by ids, float32 [k, n, chunks·256], with 0 for ids that have no column; of a block
    with `ids`, the chunks that hold any of them."""
    if block.ids is None:
        return pad(values, (0, -block.width % SIGMA_CHUNK))
    chunk = block.ids // SIGMA_CHUNK
    number = pad((chunk[:, 1:] != chunk[:, :-1]).cumsum(1), (1, 0))
    spread = values.new_zeros(*values.shape[:2], block.width * SIGMA_CHUNK)
    columns = (number * SIGMA_CHUNK + block.ids % SIGMA_CHUNK).expand(values.shape)
    return spread.scatter_(2, columns, values)
