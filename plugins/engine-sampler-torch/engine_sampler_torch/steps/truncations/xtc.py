"""xtc: exclude the top choices with some probability."""

from __future__ import annotations

import numpy as np

from engine_sampler.arithmetic import coin
from engine_sampler.contract import Rows

from ...arithmetic import weight_of_share
from ..base import Block, DeviceStep, Given


class XtcStep(DeviceStep):
    name = "xtc"
    may_fail = False
    positions_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {
            "heads": coin(rows.draw(), rows["xtc_probability"]),
            "threshold": rows["xtc_threshold"],
            "min_keep": rows["min_keep"],
        }

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        values = block.values
        above = block.heavy(weight_of_share(tensors["threshold"], block.total))
        lowest = values.masked_fill(~above, float("inf")).amin(1, keepdim=True)
        ties = above & (values == lowest)
        last = (block.columns * ties).amax(1, keepdim=True)
        dropped = above & (block.columns != last)
        enough = block.alive - dropped.sum(1) >= tensors["min_keep"]
        block.keep(~(dropped & (enough & tensors["heads"])[:, None]))
