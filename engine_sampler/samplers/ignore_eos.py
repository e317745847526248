"""ignore_eos: never end the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contract import Example, Param, Rows, Sampler, Vocabulary
from ._columns import mask_unless_empty


class IgnoreEos(Sampler):
    """Remove every EOS token, unless no other token is left (at the end of a grammar).

    False is neutral. Source: vLLM, which allows EOS to be drawn and does not stop; llama.cpp, which
    removes the tokens as this sampler does.
    """

    name = "ignore_eos"
    role = "edit"
    params = (Param("ignore_eos", bool, neutral=False, doc="mask EOS ids, so that they never end the text"),)
    examples = (
        Example((1.0, 2.0, 3.0), {"ignore_eos": True}, (1.0, 2.0, -np.inf), eos_token_ids=(2,)),
        Example((-np.inf, 3.0), {"ignore_eos": True}, (-np.inf, 3.0), eos_token_ids=(1,), note="no effect"),
    )

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> np.ndarray:
        return np.array(vocabulary.eos_token_ids, np.int64)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, (row, eos) in enumerate(zip(logits, rows.resolved, strict=True)):
            mask_unless_empty(row, rows.columns(i, eos)[0])
