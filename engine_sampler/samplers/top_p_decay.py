"""top_p_decay: a nucleus whose share shrinks with every token, and begins anew at chosen tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..contract import Example, Param, Rows, Truncation, Vocabulary
from ._values import ids_or_one
from .top_p import nucleus


@dataclass(frozen=True)
class Shares:
    """The share that each token of the output was drawn with, and that of the next one, in `values`."""

    first: float
    decay: float
    least: float
    reset_ids: frozenset[int]
    values: list[float]

    def extend(self, token_ids: Sequence[int]) -> None:
        for token in token_ids:
            decayed = max(self.values[-1] * self.decay, self.least)
            self.values.append(self.first if token in self.reset_ids else decayed)


class TopPDecay(Truncation):
    """`top_p`, with a share that falls from token to token of the output: factual nucleus sampling.

    Formula: p₀ = top_p; after a token t, p ← top_p if t is one of `top_p_reset_ids`, else
    max(p·top_p_decay, top_p_min), in float64. Then the cut of `top_p` with p, `top_p_cut` and `min_keep`.

    The prompt does not count. With a top_p below top_p_min, p is top_p for the first token and after a reset
    alone. The reset ids are those that end a sentence, or −1 for none. A top_p_decay of 1 is neutral.
    Source: Lee et al. 2022, arXiv 2206.04624; the parameters of TensorRT-LLM and FasterTransformer, which
    multiply in float32 and take one reset id.
    """

    name = "top_p_decay"
    instead_of = "top_p"
    cost = "select"
    lazy = True
    params = (
        Param("top_p_decay", float, neutral=1.0, low=0, low_open=True, high=1,
              doc="factor on top_p after each token"),
        Param("top_p_min", float, neutral=1e-6, low=0, high=1, switch=False,
              doc="least share that top_p_decay leaves"),
        Param("top_p_reset_ids", object, neutral=(), convert=ids_or_one, switch=False, limit=1024,
              doc="tokens after which top_p is whole again"),
    )  # fmt: skip
    argmax_invariant = True
    examples = (
        Example((3.0, 2.0, 1.0, 0.0), {"top_p": 0.9, "top_p_decay": 0.5}, (3.0, -np.inf, -np.inf, -np.inf),
                output_token_ids=(0,), note="shares 0.64, 0.24, 0.09, 0.03; p is 0.45 after one token"),
        Example((3.0, 2.0, 1.0, 0.0), {"top_p": 0.9, "top_p_decay": 0.5, "top_p_reset_ids": [1]},
                (3.0, 2.0, 1.0, -np.inf), output_token_ids=(0, 1), note="1 has set p back to 0.9"),
        Example((3.0, 2.0, 1.0, 0.0), {"top_p": 0.9, "top_p_decay": 0.1, "top_p_min": 0.7},
                (3.0, 2.0, -np.inf, -np.inf), output_token_ids=(0, 0)),
    )  # fmt: skip

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> None:
        vocabulary.check_ids("top_p_reset_ids", params["top_p_reset_ids"])

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> Shares:
        first, reset_ids = params["top_p"], frozenset(params["top_p_reset_ids"])
        return Shares(first, params["top_p_decay"], params["top_p_min"], reset_ids, [first])

    def accept(self, state: Shares, token_ids: Sequence[int]) -> None:
        state.extend(token_ids)

    def rollback(self, state: Shares, n: int) -> None:
        del state.values[len(state.values) - n :]

    def fork(self, state: Shares) -> Shares:
        return replace(state, values=state.values.copy())

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        return nucleus(logits, rows, np.array([state.values[-1] for state in rows.states]))
