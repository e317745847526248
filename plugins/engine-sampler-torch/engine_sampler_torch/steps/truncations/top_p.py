"""top_p: keep the likeliest tokens that together hold a share p of the probability (nucleus)."""

from __future__ import annotations

import numpy as np
import torch

from engine_sampler.contract import Rows

from ...arithmetic import mass_reaching, mass_within
from .._inputs import greatest_least, least
from ..base import Block, DeviceStep, Given


class TopPStep(DeviceStep):
    name = "top_p"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {
            "p": rows["top_p"],
            "reach": rows.derived("top_p reaches", lambda group: group["top_p_cut"] == "reach"),
            "crossing": rows.derived("top_p crosses", lambda group: group["top_p_cut"] != "below"),
            "least": least(rows),
        }

    def fixed(self, rows: Rows) -> int:
        """How many tokens must stay in some row."""
        return greatest_least(rows)

    def apply(self, block: Block, tensors: Given, fixed: int) -> None:
        p, total = tensors["p"], block.total
        limit = torch.where(tensors["reach"], mass_reaching(p, total) - 1, mass_within(p, total))
        cumulative = block.weights.gather(1, block.order()).cumsum(1)
        inside = (cumulative <= limit[:, None]).sum(1)
        floor = block.at_least(tensors["least"], fixed)
        block.keep_leading(torch.maximum(inside + tensors["crossing"], floor))
