"""allowed_token_ids: keep only the tokens in a list."""

from __future__ import annotations

import numpy as np

from engine_sampler import Rows
from engine_sampler.samplers.allowed_token_ids import AllowedTokenIds

from ._inputs import bitmask_of, of_resolved
from .base import Block, DeviceStep, Given

_CORE = AllowedTokenIds()


class AllowedTokenIdsStep(DeviceStep):
    name = "allowed_token_ids"
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        size = rows.vocabulary.size
        return {"allowed": of_resolved(_CORE, "bitmask", rows, lambda lists: bitmask_of(lists, size))}

    def apply(self, block: Block, given: Given, fixed: None) -> None:
        block.keep(block.allowed_by(given["allowed"]))
