"""tfs: cut off the flat tail of the sorted probabilities (tail-free sampling)."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import pad

from engine_sampler.contract import Rows

from ...arithmetic import mass_within
from .._inputs import greatest_least, least
from ..base import Block, DeviceStep, Given


class TfsStep(DeviceStep):
    name = "tfs"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        koboldai = rows.derived("tfs of koboldai", lambda group: group["tfs_cut"] == "koboldai")
        return {"z": rows["tfs"], "koboldai": koboldai, "least": least(rows)}

    def fixed(self, rows: Rows) -> int:
        """How many tokens must stay in some row."""
        return greatest_least(rows)

    def apply(self, block: Block, tensors: Given, fixed: int) -> None:
        alive, koboldai = block.alive, tensors["koboldai"]
        tokens = alive.masked_fill(koboldai, block.vocab_size)
        w = pad(block.weights.gather(1, block.order()), (0, 2))
        bend = (w[:, :-2] - 2 * w[:, 1:-1] + w[:, 2:]).abs()
        inside = block.columns < tokens[:, None] - 2
        bend *= inside
        straight = ~bend.any(1, keepdim=True)
        bend = torch.where(straight, inside.to(torch.int64), bend)
        total = bend.sum(1)
        limit = mass_within(tensors["z"], total)
        before = (bend.cumsum(1) <= limit[:, None]).sum(1)
        cut = torch.where(total > limit, before, tokens)
        cut = torch.where(koboldai, torch.minimum(cut + 1, tokens - 1), cut)
        cut = torch.maximum(cut, block.at_least(tensors["least"], fixed))
        whole = torch.where(koboldai, cut >= alive, cut >= alive - 2)
        block.keep_leading(torch.where(whole, alive, cut))
