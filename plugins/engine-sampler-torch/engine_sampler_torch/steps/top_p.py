"""top_p: keep the likeliest tokens that together hold a share p of the probability (nucleus)."""

from __future__ import annotations

import numpy as np
import torch
from engine_sampler import Rows

from ..arithmetic import mass_reaching, mass_within
from ._inputs import greatest_least, least
from .base import Block, DeviceStep, Given


class TopPStep(DeviceStep):
    name = "top_p"
    may_fail = False

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {
            "p": rows["top_p"],
            "reach": rows.derived("top_p reaches", lambda group: group["top_p_cut"] == "reach"),
            "crossing": rows.derived("top_p crosses", lambda group: group["top_p_cut"] != "below"),
            "least": least(rows),
        }

    def fixed(self, rows: Rows) -> bool:
        """Whether more than one token must stay in any row."""
        return greatest_least(rows) > 1

    def apply(self, block: Block, given: Given, fixed: bool) -> None:
        p, total = given["p"], block.total
        limit = torch.where(given["reach"], mass_reaching(p, total) - 1, mass_within(p, total))
        cumulative = block.weights.gather(1, block.order()).cumsum(1)
        inside = (cumulative <= limit[:, None]).sum(1)
        floor = torch.minimum(given["least"], block.alive) if fixed else 1
        block.keep_leading((inside + given["crossing"]).clamp(min=floor))
