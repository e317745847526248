"""The scores that transformers hands to criteria, read as logprobs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arithmetic import log_sum_exp


def newest_logprobs(name: str, token_ids: np.ndarray, scores: Any) -> np.ndarray:
    """float64 [rows]: the logprob of each of `token_ids` [rows] under `scores`.

    scores  [rows, vocab], or the scores of all steps, where the last ones count: NumPy arrays or tensors.

    Raises ValueError naming the criterion `name` if `generate` has given no scores, or not one row for each
    token.
    """
    newest = scores[-1] if isinstance(scores, (tuple, list)) and scores else scores
    if newest is None or isinstance(newest, (tuple, list)):
        raise ValueError(
            f"scores={scores!r} is not allowed: {name} needs the scores of the last step, which generate "
            "passes with return_dict_in_generate=True, output_scores=True"
        )
    on_host = newest.detach().cpu().float() if hasattr(newest, "detach") else newest
    rows = np.asarray(on_host, np.float64)
    if rows.ndim != 2 or len(rows) != len(token_ids):
        raise ValueError(
            f"scores of shape {list(rows.shape)} are not allowed: {name} needs [{len(token_ids)}, vocab]"
        )
    logprobs = [row[token] - log_sum_exp(row) for row, token in zip(rows, token_ids, strict=True)]
    return np.array(logprobs, np.float64)
