"""temperature: sharpen or flatten the distribution, with a range according to its entropy."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import GREEDY_BELOW, LN_2
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
from ..base import Block, FigureStep, Given


class TemperatureStep(FigureStep):
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

    def reads_rows(self, fixed: tuple[bool, bool]) -> bool:
        return fixed[0]

    def figure(self, block: Block, tensors: Given, fixed: tuple[bool, bool]) -> Tensor:
        """1/T, float32."""
        scale = tensors["scale"]
        return torch.where(tensors["dynamic"], _dynamic_scale(block, tensors), scale) if fixed[0] else scale

    def apply_with(self, figure: Tensor, block: Block, tensors: Given, fixed: tuple[bool, bool]) -> None:
        removed = block.values == NEGATIVE_INFINITY
        values = block.values.masked_fill(removed, 0.0) if figure.requires_grad else block.values
        scaled = settled(values * figure[:, None])
        block.replace(scaled.masked_fill_(removed, NEGATIVE_INFINITY))
        if fixed[1]:
            block.keep_upper((block.columns == block.best[:, None]) | ~tensors["greedy"][:, None])


def _dynamic_scale(block: Block, tensors: Given) -> Tensor:
    """float32(1/T) for the temperature that follows the entropy of each row."""
    alone = block.alive <= 1
    greatest = log2_64(block.alive.to(torch.float64)).masked_fill_(alone, 1.0)
    entropy = entropy_bits(block.weights, block.distances, block.total)
    low, exponent = tensors["low"], tensors["exponent"]
    spread = (tensors["high"] - low) * power(entropy / greatest, exponent)
    temperature = (low + spread).clamp(GREEDY_BELOW, MAX_TEMPERATURE).masked_fill_(alone, 1.0)
    scale = (constant(1.0, temperature) / temperature).to(torch.float32)
    if not block.values.requires_grad:
        return scale
    # Integers have no gradients: those of the entropy come from a softmax, d(1/T)/dH = −T'/T².
    is_within = ~alone & (entropy > 0) & (temperature > GREEDY_BELOW) & (temperature < MAX_TEMPERATURE)
    slope = (-spread * exponent / entropy / temperature**2).masked_fill(~is_within, 0.0)
    soft = _soft_entropy(block.values)
    return scale + (slope * (soft - soft.detach())).to(torch.float32)


def _soft_entropy(values: Tensor) -> Tensor:
    """H in bits, float64 [n], with gradients."""
    logs = values.to(torch.float64).log_softmax(1)
    return -(logs.exp() * logs.masked_fill(logs == NEGATIVE_INFINITY, 0.0)).sum(1) / LN_2
