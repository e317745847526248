"""mirostat: keep the surprise of the text near a target by limiting how many tokens may be drawn."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from engine_sampler.arithmetic import FLT_MAX, LN_2
from engine_sampler.arithmetic import log2_64 as log2_on_host
from engine_sampler.contract import Rows
from engine_sampler.for_backends import MIROSTAT_HEAD, MIROSTAT_STEP_SQUARES, MIROSTAT_STEPS, current_mu

from ...arithmetic import constant, exp2_64, log2_64, log2_mass, pick_by_weight, sum_in_order
from .._inputs import draws
from ..base import Block, DeviceSelector, Given


class SurpriseControlSelector(DeviceSelector):
    """The base class of both versions."""

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"draws": draws(rows), "mu": current_mu(rows)}

    def kept(self, block: Block, tensors: Given) -> Tensor:
        """bool [n, m]: the tokens that may be drawn, at least one per row."""
        raise NotImplementedError

    def select(self, block: Block, tensors: Given, fixed: None) -> tuple[Tensor, Tensor]:
        w = block.weights * self.kept(block, tensors)
        columns = pick_by_weight(w, tensors["draws"])
        bits = -block.distances.gather(1, columns[:, None])[:, 0].to(torch.float64)
        return columns, bits + log2_mass(w.sum(1))


class MirostatSelector(SurpriseControlSelector):
    name = "mirostat"

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {**super().inputs(rows), "steps": MIROSTAT_STEPS, "step_squares": MIROSTAT_STEP_SQUARES}

    def kept(self, block: Block, tensors: Given) -> Tensor:
        s = _slope(block, tensors["steps"], tensors["step_squares"]).clamp_(min=2.0**-60)
        k = exp2_64((log2_64(gap(s - 1.0, block.vocab_size)) + tensors["mu"]) / s)
        alive = block.alive
        return block.leading(torch.minimum(k.clamp(min=1.0), alive.to(torch.float64)).to(torch.int64))


def _slope(block: Block, steps: Tensor, step_squares: Tensor) -> Tensor:
    """s, the exponent of the Zipf distribution that best fits the first tokens; float64 [n]."""
    head = block.order(MIROSTAT_HEAD)[:, :MIROSTAT_HEAD]
    d = -block.distances.gather(1, head).to(torch.float64).clamp_(min=-float(FLT_MAX))
    d = pad(d, (0, MIROSTAT_HEAD - d.shape[1]))
    pairs = block.alive.clamp(max=MIROSTAT_HEAD)[:, None] - 1
    products = steps * (d[:, 1:] - d[:, :-1])
    products.masked_fill_(torch.arange(MIROSTAT_HEAD - 1, device=pairs.device) >= pairs, 0.0)
    return sum_in_order(products.unbind(1)) / step_squares.gather(0, (pairs[:, 0] - 1).clamp_(min=0))


def gap(epsilon: Tensor, vocab_size: int) -> Tensor:
    """g = ε / (1 − N^−ε), extended continuously to ε = 0, float64 [n]."""
    bits = float(log2_on_host(max(vocab_size, 2)))
    x = epsilon * (bits * LN_2)
    near_zero = x.abs() < 2.0**-10
    far = epsilon.masked_fill(near_zero, 1.0)
    series = (1.0 + x * 0.5 + x * x / constant(12.0, x)) / constant(bits * LN_2, x)
    return torch.where(near_zero, series, far / (1.0 - exp2_64(-far * bits)))
