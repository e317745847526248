"""temperature: sharpen or flatten the distribution, with a range according to its entropy."""

from __future__ import annotations

import numpy as np
import torch
from engine_sampler import Rows
from engine_sampler.arithmetic import GREEDY_BELOW
from engine_sampler.samplers import temperature as core
from torch import Tensor

from ..arithmetic import NEGATIVE_INFINITY, information, log2_64, log2_mass, power, settled
from .base import Block, DeviceStep, Given


class TemperatureStep(DeviceStep):
    name = "temperature"
    may_fail = False

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        given = {"scale": rows.derived("1/T", core.fixed_scale)}
        dynamic, greedy = self.fixed(rows)
        if dynamic:
            base, half = rows["temperature"], rows["dynatemp_range"]
            given["dynamic"] = rows.derived("T follows the entropy", core.is_dynamic)
            given["low"] = np.maximum(0.0, base - half)
            given["high"] = base + half
            given["exponent"] = rows["dynatemp_exponent"]
        if greedy:
            given["greedy"] = rows.derived("T is 0", core.is_greedy)
        return given

    def fixed(self, rows: Rows) -> tuple[bool, bool]:
        """Whether the temperature of any row is dynamic, and whether any is 0."""
        dynamic = rows.derived("T follows the entropy", core.is_dynamic)
        return bool(dynamic.any()), bool(rows.derived("T is 0", core.is_greedy).any())

    def apply(self, block: Block, given: Given, fixed: tuple[bool, bool]) -> None:
        dynamic, greedy = fixed
        scale = given["scale"]
        if dynamic:
            scale = torch.where(given["dynamic"], (1.0 / _dynamic(block, given)).to(torch.float32), scale)
        removed = block.values == NEGATIVE_INFINITY
        block.replace(settled(block.values * scale[:, None]).masked_fill_(removed, NEGATIVE_INFINITY))
        if greedy:
            block.keep_upper((block.columns == block.best[:, None]) | ~given["greedy"][:, None])


def _dynamic(block: Block, given: Given) -> Tensor:
    """The temperature according to the entropy of each row, float64 [n]."""
    total, several = block.total, block.alive > 1
    bits = information(block.weights, block.distances).sum(1).to(torch.float64)
    entropy = log2_mass(total) + bits / total.to(torch.float64)
    greatest = torch.where(several, log2_64(block.alive.to(torch.float64)), 1.0)
    share = power(entropy / greatest, given["exponent"])
    low = given["low"]
    dynamic = (low + (given["high"] - low) * share).clamp(GREEDY_BELOW, core.MAX_TEMPERATURE)
    return torch.where(several, dynamic, 1.0)
