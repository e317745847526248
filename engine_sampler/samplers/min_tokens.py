"""min_tokens: do not end the text too early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contract import Example, Param, Rows, Sampler, Vocabulary
from ._columns import mask_unless_empty


class MinTokens(Sampler):
    """Remove EOS, the request's stop_token_ids and the special tokens that `stop` names while the output has
    fewer than min_tokens tokens.

    It has no effect if no other token is left (at the end of a grammar). The prompt does not count.
    0 is neutral. Source: vLLM; transformers' min_new_tokens.
    """

    name = "min_tokens"
    role = "edit"
    params = (Param("min_tokens", int, neutral=0, low=0, doc="least number of output tokens"),)
    examples = (
        Example((1.0, 2.0), {"min_tokens": 2}, (1.0, -np.inf), output_token_ids=(0,), eos_token_ids=(1,)),
        Example((1.0, 2.0), {"min_tokens": 2}, (1.0, 2.0), output_token_ids=(0, 0), eos_token_ids=(1,)),
        Example((1.0, 2.0, 3.0), {"min_tokens": 1, "stop_token_ids": [2]}, (1.0, 2.0, -np.inf)),
    )

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> np.ndarray:
        stop = params.get("stop_token_ids", ())
        vocabulary.check_ids("stop_token_ids", stop)
        tokenizer, names = vocabulary.tokenizer, params.get("stop", ())
        named = () if tokenizer is None or not names else tokenizer.special_ids(names)
        return np.array([*vocabulary.eos_token_ids, *stop, *named], np.int64)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, (row, ends) in enumerate(zip(logits, rows.resolved, strict=True)):
            if is_below_min_tokens(rows, i):
                mask_unless_empty(row, rows.columns(i, ends)[0])


def is_below_min_tokens(rows: Rows, i: int) -> bool:
    """Whether row i has fewer output tokens than it must."""
    return bool(len(rows.output_token_ids(i)) < rows["min_tokens"][i])
