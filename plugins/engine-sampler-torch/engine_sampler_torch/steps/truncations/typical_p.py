"""typical_p: keep the tokens whose information content is closest to the expected one."""

from __future__ import annotations

import numpy as np
import torch

from engine_sampler.contract import Rows

from ...arithmetic import descending, information, mass_reaching
from .._inputs import greatest_least, least
from ..base import Block, DeviceStep, Given


class TypicalPStep(DeviceStep):
    name = "typical_p"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"p": rows["typical_p"], "least": least(rows)}

    def fixed(self, rows: Rows) -> int:
        """How many tokens must stay in some row."""
        return greatest_least(rows)

    def apply(self, block: Block, tensors: Given, fixed: int) -> None:
        y, w, total = block.distances, block.weights, block.total
        bits = information(w, y).sum(1).to(torch.float64)
        expected = (bits / total.to(torch.float64)).to(torch.float32)
        score = (y + expected[:, None]).abs_()
        by_score = descending(score.gather(1, block.order()).neg_())
        order = block.order().gather(1, by_score)
        need = mass_reaching(tensors["p"], total)
        crossing = (w.gather(1, order).cumsum(1) < need[:, None]).sum(1) + 1
        count = torch.maximum(crossing, block.at_least(tensors["least"], fixed))
        mask = torch.empty_like(order, dtype=torch.bool)
        block.keep(mask.scatter_(1, order, block.columns < count[:, None]))
