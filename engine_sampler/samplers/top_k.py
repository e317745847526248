"""top_k: keep the k likeliest tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arithmetic import keep_leading, top_columns
from ..contract import Example, Param, Rows, Truncation


class TopK(Truncation):
    """Keep exactly the first k tokens in (logit descending, id ascending) order.

    Of the tokens that tie with the k-th logit, only as many stay as k allows: a request never has more
    candidates than it requested. llama.cpp keeps an unspecified choice among them, transformers keeps them
    all. 0 and −1 are off. `min_keep` has no effect, as in llama.cpp; transformers'
    min_tokens_to_keep raises k. Source: Fan et al. 2018, arXiv 1805.04833.
    """

    name = "top_k"
    cost = "select"
    params = (Param("top_k", int, neutral=0, low=-1, high=2**31 - 1, doc="tokens to keep; 0 and -1 are off"),)
    argmax_invariant = True
    examples = (
        Example((1.0, 3.0, 2.0), {"top_k": 2}, (-np.inf, 3.0, 2.0)),
        Example((1.0, 1.0, 1.0), {"top_k": 2}, (1.0, 1.0, -np.inf), note="ties go to the lower id"),
        Example((1.0, 3.0), {"top_k": 9}, (1.0, 3.0), note="more than there are: no effect"),
    )

    def is_active(self, params: Mapping[str, Any]) -> bool:
        return bool(params["top_k"] > 0)

    def keep_columns(self, row: np.ndarray, rows: Rows) -> np.ndarray:
        columns = top_columns(row, min(int(rows["top_k"][0]), len(row)))
        columns.sort()
        return columns

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        return keep_leading(logits, rows["top_k"])
