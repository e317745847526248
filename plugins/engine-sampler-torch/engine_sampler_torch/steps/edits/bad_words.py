"""bad_words: never complete certain token sequences."""

from __future__ import annotations

import numpy as np

from engine_sampler.contract import Rows
from engine_sampler.for_backends import ids_completing_bad_words

from .._inputs import id_table
from ..base import Block, DeviceStep, Given
from ._changes import remove


class BadWordsStep(DeviceStep):
    name = "bad_words"
    histories_only = True
    sparse_ids = ("ids",)

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"ids": id_table(list(ids_completing_bad_words(rows)), rows)}

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        remove(block, tensors["ids"])
