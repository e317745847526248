"""mirostat_v2: keep the surprise of the text near a target by dropping tokens above mu."""

from __future__ import annotations

import torch
from torch import Tensor

from ...arithmetic import log2_mass
from ..base import Block, Given
from .mirostat import SurpriseControlSelector


class MirostatV2Selector(SurpriseControlSelector):
    name = "mirostat_v2"

    def kept(self, block: Block, tensors: Given) -> Tensor:
        limit = (tensors["mu"] - log2_mass(block.total)).to(torch.float32)
        return block.above_best(-block.distances > limit[:, None])
