"""no_repeat_ngram: no token sequence of a given length occurs twice."""

from __future__ import annotations

import numpy as np

from engine_sampler.contract import Rows
from engine_sampler.for_backends import ids_completing_ngrams

from .._inputs import id_table
from ..base import Block, DeviceStep, Given
from ._changes import remove_unless_empty


class NoRepeatNgramStep(DeviceStep):
    name = "no_repeat_ngram"
    may_fail = False
    histories_only = True
    searches = True
    sparse_ids = ("ids",)

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"ids": id_table(list(ids_completing_ngrams(rows)), rows)}

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        remove_unless_empty(block, tensors["ids"])
