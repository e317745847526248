"""min_p: drop tokens far less likely than the best one."""

from __future__ import annotations

import numpy as np
import torch

from engine_sampler.arithmetic import MASS_SLACK
from engine_sampler.contract import Rows
from engine_sampler.for_backends import min_p_depth

from .._inputs import greatest_least, least
from ..base import Block, DeviceStep, Given


class MinPStep(DeviceStep):
    name = "min_p"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"depth": rows.derived("ln(min_p)", min_p_depth), "least": least(rows)}

    def fixed(self, rows: Rows) -> int:
        """How many tokens must stay in some row."""
        return greatest_least(rows)

    def apply(self, block: Block, tensors: Given, fixed: int) -> None:
        peak = block.values.amax(1).to(torch.float64)
        threshold = (peak + tensors["depth"] - MASS_SLACK).to(torch.float32)
        mask = block.values >= threshold[:, None]
        if fixed > 1:
            mask |= block.leading(block.at_least(tensors["least"], fixed), fixed)
        block.keep_upper(mask)
