"""epsilon_cutoff: drop tokens below an absolute probability."""

from __future__ import annotations

import numpy as np

from engine_sampler.contract import Rows

from ...arithmetic import weight_of_share
from ..base import Block, DeviceStep, Given


class EpsilonCutoffStep(DeviceStep):
    name = "epsilon_cutoff"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"epsilon": rows["epsilon_cutoff"]}

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        block.keep_heavy(weight_of_share(tensors["epsilon"], block.total))
