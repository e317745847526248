"""eta_cutoff: drop tokens below a probability that falls with the row's entropy."""

from __future__ import annotations

import numpy as np
import torch

from engine_sampler.contract import Rows

from ...arithmetic import entropy_bits, exp2_64, weight_of_share
from ..base import Block, DeviceStep, Given


class EtaCutoffStep(DeviceStep):
    name = "eta_cutoff"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        root = rows.derived("sqrt(eta_cutoff)", lambda group: np.sqrt(group["eta_cutoff"]))
        return {"eta": rows["eta_cutoff"], "root": root}

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        entropy = entropy_bits(block.weights, block.distances, block.total)
        share = torch.minimum(tensors["eta"], tensors["root"] * exp2_64(-entropy))
        block.keep_heavy(weight_of_share(share, block.total))
