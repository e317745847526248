"""no_repeat_ngram_window: no token sequence of a given length occurs twice nearby, some tokens excepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contract import Example, Param, Rows, Sampler, Vocabulary
from ..contract.values import unique_token_ids
from ._columns import mask_unless_empty
from .no_repeat_ngram import completions


class NoRepeatNgramWindow(Sampler):
    """Remove every token that would complete an n-gram that occurs within the last tokens.

    As `no_repeat_ngram`, with the last no_repeat_ngram_window tokens of prompt and output in place of all;
    0 is all. An n-gram that begins before the window does not count. The tokens of
    no_repeat_ngram_whitelist_ids may complete any n-gram: those of a table, say. Source: the processors for
    DeepSeek-OCR of vLLM and SGLang (ngram_size, window_size, whitelist_token_ids).
    """

    name = "no_repeat_ngram_window"
    instead_of = "no_repeat_ngram"
    role = "penalty"
    cost = "history"
    params = (
        Param("no_repeat_ngram_window", int, neutral=0, low=0,
              doc="newest tokens in which an n-gram occurs only once; 0 all"),
        Param("no_repeat_ngram_whitelist_ids", object, neutral=(), convert=unique_token_ids,
              limit=16_384, doc="tokens that may complete an n-gram again"),
    )  # fmt: skip
    examples = (
        Example((1.0, 2.0, 3.0), {"no_repeat_ngram_size": 2, "no_repeat_ngram_window": 3},
                (1.0, -np.inf, 3.0), prompt_token_ids=(0, 2, 0), output_token_ids=(1, 0),
                note="0 2 is no longer in the window"),
        Example((1.0, 2.0, 3.0), {"no_repeat_ngram_size": 2, "no_repeat_ngram_whitelist_ids": [2]},
                (1.0, -np.inf, 3.0), prompt_token_ids=(0, 2, 0), output_token_ids=(1, 0)),
    )  # fmt: skip

    def is_active(self, params: Mapping[str, Any]) -> bool:
        narrower = params["no_repeat_ngram_window"] or params["no_repeat_ngram_whitelist_ids"]
        return bool(params["no_repeat_ngram_size"] and narrower)

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> np.ndarray:
        vocabulary.check_ids("no_repeat_ngram_whitelist_ids", params["no_repeat_ngram_whitelist_ids"])
        return np.array(params["no_repeat_ngram_whitelist_ids"], np.int64)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        sizes, windows = rows["no_repeat_ngram_size"].tolist(), rows["no_repeat_ngram_window"].tolist()
        for i, (row, exempt, n, window) in enumerate(zip(logits, rows.resolved, sizes, windows, strict=True)):
            recent = rows.token_ids(i)[-window:]
            ids = np.setdiff1d(recent[completions(recent, n)], exempt)
            mask_unless_empty(row, rows.columns(i, ids)[0])
