"""The logprobs of given tokens by a backend, checked, or by the host."""

from __future__ import annotations

import numpy as np

from ..arithmetic import (
    LogitRows,
    Logprobs,
    RowFault,
    RowGiven,
    RowLogprobs,
    checked_row,
    gather,
    given_logprobs,
    row_logprobs,
)
from ..base.errors import INTERRUPTIONS, failure, quoted
from ..contract import Backend, BackendError


def logprobs_of(rows: LogitRows, token_ids: np.ndarray, top_n: int, backend: Backend) -> Logprobs:
    """The logprobs of `token_ids` int64 [rows] and of the `top_n` likeliest tokens of each of `rows`. Raises
    `BackendError`."""
    reported = _reported_logprobs(backend, rows, token_ids, top_n)
    return _host_logprobs(rows, token_ids, top_n) if reported is None else reported


def given_of(row: np.ndarray, token_ids: np.ndarray, backend: Backend) -> RowGiven:
    """`given_logprobs` of a float32 row [vocab] as it came; a faulty one has NaN and rank 0 everywhere.
    Raises `BackendError`."""
    repeated = LogitRows(np.broadcast_to(row, (len(token_ids), len(row))), len(row))
    reported = _reported_logprobs(backend, repeated, token_ids, 0)
    if reported is not None:
        return RowGiven(token_ids, reported.entry_logprobs[reported.starts[:-1]], reported.ranks)
    try:
        return given_logprobs(checked_row(row), token_ids)
    except RowFault:
        missing: np.ndarray = np.full(len(token_ids), np.nan, np.float32)
        return RowGiven(token_ids, missing, np.zeros(len(token_ids), np.int64))


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
