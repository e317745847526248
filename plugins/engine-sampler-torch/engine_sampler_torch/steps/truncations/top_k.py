"""top_k: keep the k likeliest tokens."""

from __future__ import annotations

import numpy as np

from engine_sampler.contract import Rows

from ..base import Block, DeviceStep, Given

WIDEST = 1024
"""A block is narrowed down for up to this many columns."""
_NARROWEST = 64


class TopKStep(DeviceStep):
    name = "top_k"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"k": rows["top_k"]}

    def fixed(self, rows: Rows) -> int | None:
        """How many columns hold what stays: 64, 128, …, 1024; None if that is not enough."""
        greatest = int(rows["top_k"].max())
        return None if greatest > WIDEST else max(_NARROWEST, 1 << (greatest - 1).bit_length())

    def apply(self, block: Block, tensors: Given, fixed: int | None) -> None:
        if fixed is not None and fixed < block.width:
            block.narrow(fixed)
        block.keep_leading(tensors["k"])
