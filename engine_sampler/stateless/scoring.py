"""`logprobs`: those of given tokens, to score a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arithmetic import LogitRows, Logprobs, RowFault, RowLogprobs, checked_row, gather, row_logprobs
from ..backends.choose import best_backend
from ..base.errors import INTERRUPTIONS, failure, quoted
from ..contract import Backend, BackendError


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


def logprobs_of(rows: LogitRows, token_ids: np.ndarray, top_n: int, backend: Backend) -> Logprobs:
    """The logprobs of `token_ids` int64 [rows] and of the `top_n` likeliest tokens of each of `rows`. Raises
    `BackendError`."""
    reported = _reported_logprobs(backend, rows, token_ids, top_n)
    return _host_logprobs(rows, token_ids, top_n) if reported is None else reported


def _reported_logprobs(
    backend: Backend, logits: LogitRows, token_ids: np.ndarray, top_n: int
) -> Logprobs | None:
    """What the backend gives: one row for each token, which comes first in it unless the row is faulty."""
    try:
        reported = backend.logprobs(logits, token_ids.copy(), top_n)
        if reported is None or (
            type(reported) is Logprobs and _is_sound(reported, token_ids, logits.vocab_size, top_n)
        ):
            return reported
    except (BackendError, *INTERRUPTIONS):
        raise
    except BaseException as error:
        raise BackendError(failure(f"backend {backend.name}", error)) from error
    raise BackendError(f"backend {backend.name} failed: it gave {quoted(reported)}, not these rows' logprobs")


def _is_sound(found: Logprobs, token_ids: np.ndarray, width: int, top_n: int) -> bool:
    ids, values, starts, ranks = found.entry_token_ids, found.entry_logprobs, found.starts, found.ranks
    kinds = ((ids, np.int64), (values, np.float32), (starts, np.int64), (ranks, np.int64))
    if any(type(array) is not np.ndarray or array.dtype != kind or array.ndim != 1 for array, kind in kinds):
        return False
    rows, room = len(token_ids), 1 + (width if top_n < 0 else top_n)
    if len(starts) != rows + 1 or len(ranks) != rows or len(ids) != len(values) or starts[0] != 0:
        return False
    lengths = np.diff(starts)
    if starts[-1] != len(ids) or (lengths < 1).any() or (lengths > room).any():
        return False
    fits = (ids >= -1).all() and (ids < width).all() and (ranks >= 0).all() and (ranks <= width).all()
    first = ids[starts[:-1]]
    return bool(fits and ((first == token_ids) | (first == -1)).all())


def _host_logprobs(logits: LogitRows, token_ids: np.ndarray, top_n: int) -> Logprobs:
    entries: list[RowLogprobs | None] = []
    for i, token_id in enumerate(token_ids.tolist()):
        try:
            entries.append(row_logprobs(checked_row(logits.row(i)), token_id, top_n))
        except RowFault:
            entries.append(None)
    out = gather(entries)
    out.entry_token_ids[out.starts[:-1]] = token_ids
    return out
