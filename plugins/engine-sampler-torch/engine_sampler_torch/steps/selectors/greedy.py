"""greedy: choose the best token."""

from __future__ import annotations

from torch import Tensor

from ..base import Block, DeviceSelector, Given


class GreedySelector(DeviceSelector):
    name = "greedy"
    parameters_only = True

    def select(self, block: Block, tensors: Given, fixed: None) -> tuple[Tensor, None]:
        return block.best, None
