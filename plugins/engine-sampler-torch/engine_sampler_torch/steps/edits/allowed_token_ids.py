"""allowed_token_ids: keep only the tokens in a list."""

from __future__ import annotations

import numpy as np

from engine_sampler.contract import Rows

from .._inputs import bitmask_of
from ..base import Block, DeviceStep, Given


class AllowedTokenIdsStep(DeviceStep):
    name = "allowed_token_ids"
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        size = rows.vocabulary.size
        return {
            "allowed": rows.derived("allowed_token_ids bits", lambda group: bitmask_of(group.resolved, size))
        }

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        block.keep(block.allowed_by(tensors["allowed"]))
