"""temperature: sharpen or flatten the distribution, with a range according to its entropy."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import GREEDY_BELOW
from engine_sampler.contract import Rows
from engine_sampler.for_backends import (
    MAX_TEMPERATURE,
    highest_temperature,
    is_temperature_dynamic,
    is_temperature_greedy,
    lowest_temperature,
    temperature_scale,
)

from ...arithmetic import NEGATIVE_INFINITY, constant, entropy_bits, log2_64, power, settled
from ..base import Block, DeviceStep, Given


class TemperatureStep(DeviceStep):
    name = "temperature"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        inputs = {"scale": rows.derived("1/T", temperature_scale)}
        dynamic, greedy = self.fixed(rows)
        if dynamic:
            inputs["dynamic"] = rows.derived("T follows the entropy", is_temperature_dynamic)
            inputs["low"] = rows.derived("least T", lowest_temperature)
            inputs["high"] = rows.derived("greatest T", highest_temperature)
            inputs["exponent"] = rows["dynatemp_exponent"]
        if greedy:
            inputs["greedy"] = rows.derived("T is 0", is_temperature_greedy)
        return inputs

    def fixed(self, rows: Rows) -> tuple[bool, bool]:
        """Whether the temperature of any row is dynamic, and whether any is 0."""
        dynamic = rows.derived("T follows the entropy", is_temperature_dynamic)
        return bool(dynamic.any()), bool(rows.derived("T is 0", is_temperature_greedy).any())

    def apply(self, block: Block, tensors: Given, fixed: tuple[bool, bool]) -> None:
        dynamic, greedy = fixed
        scale = tensors["scale"]
        if dynamic:
            scale = torch.where(tensors["dynamic"], _dynamic_scale(block, tensors), scale)
        removed = block.values == NEGATIVE_INFINITY
        scaled = settled(block.values * scale[:, None])
        block.replace(scaled.masked_fill_(removed, NEGATIVE_INFINITY))
        if greedy:
            block.keep_upper((block.columns == block.best[:, None]) | ~tensors["greedy"][:, None])


def _dynamic_scale(block: Block, tensors: Given) -> Tensor:
    """float32(1/T) for the temperature that follows the entropy of each row."""
    alone = block.alive <= 1
    greatest = log2_64(block.alive.to(torch.float64)).masked_fill_(alone, 1.0)
    entropy = entropy_bits(block.weights, block.distances, block.total)
    low = tensors["low"]
    spread = (tensors["high"] - low) * power(entropy / greatest, tensors["exponent"])
    temperature = (low + spread).clamp(GREEDY_BELOW, MAX_TEMPERATURE).masked_fill_(alone, 1.0)
    return (constant(1.0, temperature) / temperature).to(torch.float32)
