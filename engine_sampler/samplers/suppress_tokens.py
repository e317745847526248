"""suppress_tokens: never draw some tokens, or not as the first one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..contract import Example, Param, Rows, Sampler, Vocabulary
from ..contract.values import unique_token_ids


class Suppressed(NamedTuple):
    """always, at_begin  int64, the ids that are removed at every token and at the first one.
    after_bos  whether the first token of a request with a short prompt is a forced one."""

    always: np.ndarray
    at_begin: np.ndarray
    after_bos: bool


class SuppressTokens(Sampler):
    """Remove suppress_tokens always, and begin_suppress_tokens as the first token of the output.

    If the prompt has at most one token and `forced_bos_token_id` determines the first one, the second is
    meant in its place. If no token is left, the request ends with an error. [] is neutral. Source:
    transformers (Whisper).
    """

    name = "suppress_tokens"
    role = "edit"
    params = (
        Param("suppress_tokens", object, neutral=(), convert=unique_token_ids, limit=16_384,
              doc="token ids that are never drawn"),
        Param("begin_suppress_tokens", object, neutral=(), convert=unique_token_ids, limit=16_384,
              doc="token ids that the output does not begin with"),
    )  # fmt: skip
    examples = (
        Example((1.0, 2.0, 3.0), {"suppress_tokens": [2]}, (1.0, 2.0, -np.inf), output_token_ids=(0,)),
        Example((1.0, 2.0, 3.0), {"begin_suppress_tokens": [1]}, (1.0, -np.inf, 3.0), prompt_token_ids=(0,)),
        Example((1.0, 2.0, 3.0), {"begin_suppress_tokens": [1]}, (1.0, 2.0, 3.0), output_token_ids=(0,)),
    )  # fmt: skip

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> Suppressed:
        for name in ("suppress_tokens", "begin_suppress_tokens"):
            vocabulary.check_ids(name, params[name])
        always, at_begin = params["suppress_tokens"], params["begin_suppress_tokens"]
        after_bos = bool(params["forced_bos_token_id"])
        return Suppressed(np.array(always, np.int64), np.array(at_begin, np.int64), after_bos)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, (row, suppressed) in enumerate(zip(logits, rows.resolved, strict=True)):
            row[rows.columns(i, suppressed.always)[0]] = -np.inf
            forced = suppressed.after_bos and len(rows.prompt_token_ids(i)) <= 1
            if len(rows.output_token_ids(i)) == int(forced):
                row[rows.columns(i, suppressed.at_begin)[0]] = -np.inf
