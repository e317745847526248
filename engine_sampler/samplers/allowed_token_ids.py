"""allowed_token_ids: keep only the tokens in a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contract import Example, Param, Rows, Truncation, Vocabulary
from ..contract.values import token_ids


def _allowed(value: Any) -> tuple[int, ...]:
    allowed = tuple(sorted(set(token_ids(value))))
    if not allowed:
        raise ValueError("at least one token id; None allows all")
    return allowed


class AllowedTokenIds(Truncation):
    """Remove every token that is not in the list.

    If all allowed tokens have already been removed (by a grammar), no token is left and the request
    ends with an error. None is neutral; an empty list is refused. Source: vLLM.
    """

    name = "allowed_token_ids"
    role = "edit"
    params = (
        Param("allowed_token_ids", object, neutral=None, convert=_allowed, limit=32_768,
              doc="the only tokens kept"),
    )  # fmt: skip
    examples = (
        Example((1.0, 2.0, 3.0), {"allowed_token_ids": [1, 0]}, (1.0, 2.0, -np.inf)),
        Example((1.0, -np.inf, 3.0), {"allowed_token_ids": [0, 1]}, (1.0, -np.inf, -np.inf)),
    )

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> np.ndarray:
        vocabulary.check_ids("allowed_token_ids", params["allowed_token_ids"])
        return np.array(params["allowed_token_ids"], np.int64)

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        mask = np.zeros(logits.shape, bool)
        for i, allowed in enumerate(rows.resolved):
            mask[i, rows.columns(i, allowed)[0]] = True
        return mask
