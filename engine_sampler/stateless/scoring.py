"""`logprobs`: those of given tokens, to score a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arithmetic import LogitRows, Logprobs
from ..backends.choose import best_backend
from ..backends.scoring import logprobs_of


def logprobs(logits: Any, token_ids: Sequence[int] | np.ndarray, top_n: int = 0) -> Logprobs:
    """Logprobs of given tokens, to score a prompt or a completion.

    logits     [rows, vocab], in any form that `Scheduler.step` accepts; row i predicts token_ids[i].
    token_ids  integers [rows].
    top_n      how many of the most likely tokens to list in addition; −1 = all.

    A faulty row (NaN, +inf, a logit above 2^100, or nothing but −inf) has no logprobs (NaN) and rank 0.
    Raises ValueError for wrong shapes and for ids outside the vocabulary. A backend that gives something that
    is not the logprobs of these rows raises `BackendError`.
    """
    rows = LogitRows(logits, 1)
    chosen = np.asarray(token_ids, np.int64)
    if chosen.shape != (len(rows),):
        raise ValueError(f"token_ids have shape {chosen.shape}; allowed is [{len(rows)}], one per row")
    if ((chosen < 0) | (chosen >= rows.width)).any():
        raise ValueError(f"token_ids must lie in 0..{rows.width - 1}")
    if top_n < -1:
        raise ValueError(f"top_n={top_n} is not allowed: -1 for all, or at least 0")
    return logprobs_of(LogitRows(rows, rows.width), chosen, top_n, best_backend(rows.device))
