"""forced_tokens: the first token of a text, and the last one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.errors import quoted
from ..contract import Example, Param, ParameterError, Rows, Sampler, Vocabulary
from ._columns import finite_columns
from ._values import ids_or_one


class ForcedTokens(Sampler):
    """Leave only forced_bos_token_id after a single token, and only forced_eos_token_id as the last token.

    The first rule holds if prompt and output together have one token: that with which a decoder starts. The
    last token is that with which the output has max_tokens tokens, or prompt and output have max_length; one
    of the two must be given. What is left has a logit of 0: of several ids, each is equally likely. A token
    that other masks have removed stays removed; if all forced ones are, there is no effect.
    [] and None are neutral. Source: transformers, where a forced token overrides all masks.
    """

    name = "forced_tokens"
    role = "edit"
    params = (
        Param("forced_bos_token_id", object, neutral=(), convert=ids_or_one, limit=1024,
              doc="the token after the one that starts a decoder, or several"),
        Param("forced_eos_token_id", object, neutral=(), convert=ids_or_one, limit=1024,
              doc="the last token when max_tokens is reached, or several"),
    )  # fmt: skip
    examples = (
        Example((1.0, 2.0, 3.0), {"forced_bos_token_id": 1}, (-np.inf, 0.0, -np.inf), prompt_token_ids=(2,)),
        Example((1.0, 2.0, 3.0), {"forced_bos_token_id": 1}, (1.0, 2.0, 3.0), prompt_token_ids=(2, 0)),
        Example((1.0, 2.0, 3.0), {"forced_eos_token_id": [0, 1], "max_tokens": 3}, (0.0, 0.0, -np.inf),
                output_token_ids=(2, 2)),
        Example((-np.inf, 2.0), {"forced_eos_token_id": 0, "max_tokens": 1}, (-np.inf, 2.0),
                note="no effect"),
    )  # fmt: skip

    def check(self, params: Mapping[str, Any]) -> None:
        ids = params["forced_eos_token_id"]
        if ids and params["max_tokens"] is None and params["max_length"] is None:
            raise ParameterError(
                f"forced_eos_token_id={quoted(list(ids))} is not allowed here: it needs max_tokens or "
                "max_length"
            )

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the first token, and those of the last."""
        names = ("forced_bos_token_id", "forced_eos_token_id")
        for name in names:
            vocabulary.check_ids(name, params[name])
        first, last = (np.array(params[name], np.int64) for name in names)
        return first, last

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        limits = zip(rows["max_tokens"].tolist(), rows["max_length"].tolist(), strict=True)
        for i, (row, (first, last), (most, longest)) in enumerate(
            zip(logits, rows.resolved, limits, strict=True)
        ):
            length = len(rows.token_ids(i))
            if length == 1:
                _leave_only(row, rows, i, first)
            if most == len(rows.output_token_ids(i)) + 1 or longest == length + 1:
                _leave_only(row, rows, i, last)


def _leave_only(row: np.ndarray, rows: Rows, i: int, ids: np.ndarray) -> None:
    columns, _ = finite_columns(row, rows, i, ids)
    if len(columns):
        row.fill(-np.inf)
        row[columns] = 0.0
