"""dist: draw a token from the remaining distribution."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from engine_sampler.contract import Rows

from ...arithmetic import pick_by_weight
from .._inputs import draws
from ..base import Block, DeviceSelector, Given


class DistSelector(DeviceSelector):
    name = "dist"
    positions_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"draws": draws(rows)}

    def select(self, block: Block, tensors: Given, fixed: None) -> tuple[Tensor, None]:
        return pick_by_weight(block.weights, tensors["draws"]), None
