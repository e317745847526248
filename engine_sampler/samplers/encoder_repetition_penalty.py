"""encoder_repetition_penalty: keep to the tokens of the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arithmetic import FLT_MAX
from ..contract import Example, Param, Rows, Sampler
from ._columns import finite_columns, store
from .penalties import divided

_TINY = float(np.finfo(np.float32).tiny)


class EncoderRepetitionPenalty(Sampler):
    """Make the tokens of the prompt likelier by a factor: the inverse of a repetition penalty.

    Formula: q = float32(1 / encoder_repetition_penalty), at least 2^−126 and at most FLT_MAX;
    l > 0 ? l / q : l·q for every token that occurs in the prompt, clamped to ±FLT_MAX. A penalty above 1
    raises their logits, one below 1 lowers them. Removed tokens stay removed. 1 is neutral. Source:
    transformers, where the ids of the encoder count, and text-generation-webui, where those of the prompt do.
    """

    name = "encoder_repetition_penalty"
    role = "penalty"
    cost = "history"
    lazy = True
    params = (
        Param("encoder_repetition_penalty", float, neutral=1.0, low=0, low_open=True,
              doc="inverse factor on the tokens of the prompt"),
    )  # fmt: skip
    examples = (
        Example((2.0, -2.0, 1.0), {"encoder_repetition_penalty": 2.0}, (4.0, -1.0, 1.0),
                prompt_token_ids=(0, 1)),
        Example((2.0, 2.0), {"encoder_repetition_penalty": 2.0}, (2.0, 4.0), prompt_token_ids=(1,),
                output_token_ids=(0,), note="the output does not count"),
    )  # fmt: skip

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> np.ndarray:
        return np.unique(prompt_token_ids)

    def fork(self, state: np.ndarray) -> np.ndarray:
        return state

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        factors = np.clip(1.0 / rows["encoder_repetition_penalty"], _TINY, FLT_MAX).astype(np.float32)
        for i, (row, state, q) in enumerate(zip(logits, rows.states, factors, strict=True)):
            columns, _ = finite_columns(row, rows, i, state)
            store(row, columns, divided(row[columns], q, q))
