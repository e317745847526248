"""Log-probabilities for users, as the arithmetic contract defines them: the chosen token first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .integer_weights import LN_2, distances, log2_mass, weights
from .ranking import descending, top_columns


@dataclass(frozen=True)
class Logprobs:
    """token_ids int64 [rows, 1 + k] and logprobs float32 [rows, 1 + k], the chosen token first, then
    the k likeliest in order; ranks int64 [rows], the chosen token's rank in (logit desc, id asc)
    order, from 1. Missing entries of a row are −1 and NaN; a row without entries has rank 0."""

    token_ids: np.ndarray
    logprobs: np.ndarray
    ranks: np.ndarray

    @classmethod
    def empty(cls, rows: int, k: int) -> Logprobs:
        """Rows without entries."""
        return cls(
            np.full((rows, 1 + k), -1, np.int64),
            np.full((rows, 1 + k), np.nan, np.float32),
            np.zeros(rows, np.int64),
        )

    def fill(self, row: int, entry: RowLogprobs) -> None:
        """Store `entry` in a row."""
        n = len(entry.token_ids)
        self.token_ids[row, :n] = entry.token_ids
        self.logprobs[row, :n] = entry.logprobs
        self.ranks[row] = entry.rank

    def copy_rows(self, other: Logprobs, rows: np.ndarray) -> None:
        """Take over `rows` of `other`, which has the same shape."""
        self.token_ids[rows], self.logprobs[rows] = other.token_ids[rows], other.logprobs[rows]
        self.ranks[rows] = other.ranks[rows]

    def clear(self, rows: np.ndarray) -> None:
        """Leave `rows` without entries."""
        self.token_ids[rows], self.logprobs[rows], self.ranks[rows] = -1, np.nan, 0

    def trimmed(self) -> Logprobs:
        """The same without columns that no row uses. The entries of a row have no gaps, so the first unused
        column is found by bisection, however wide the table is."""
        columns = range(1, self.token_ids.shape[1])
        width = 1 + bisect_left(columns, True, key=lambda column: bool((self.token_ids[:, column] < 0).all()))
        if width == self.token_ids.shape[1]:
            return self
        return Logprobs(self.token_ids[:, :width], self.logprobs[:, :width], self.ranks)


@dataclass(frozen=True)
class RowLogprobs:
    """One row of `Logprobs`."""

    token_ids: np.ndarray
    logprobs: np.ndarray
    rank: int


def log_total(logits: np.ndarray) -> float:
    """ln Σ exp(l) of one float32 row [m], the same on every exact backend: max + (log2_64(S) − 30)·ln 2,
    where S is the sum of the integer weights. NaN for a row that contains NaN or +inf, or only −inf.

    It differs from the real value by at most V·2^−31 + 1e−6.
    """
    peak = np.float64(logits.max())
    if not np.isfinite(peak):
        return float("nan")
    with np.errstate(over="ignore"):
        total = weights(distances(logits[None])).sum()
    return float(peak + log2_mass(total) * LN_2)


def row_logprobs(logits: np.ndarray, token_id: int, top_n: int, ids: np.ndarray | None = None) -> RowLogprobs:
    """The logprobs of one row of float32 `logits` [m] for `token_id` and for its `top_n` likeliest tokens:
    float32(float64(l) − log_total).

    ids: the token of each column, ascending; None if column j is token j. top_n = −1 means all. A token
    that has no column or is −inf has logprob −inf and the rank after all others.
    """
    column = token_id if ids is None else int(np.searchsorted(ids, token_id))
    present = ids is None or (column < len(ids) and ids[column] == token_id)
    chosen = logits[column] if present else np.float32(-np.inf)
    better = int((logits > chosen).sum())
    equal = int((logits[:column] == chosen).sum()) if chosen > -np.inf else 0
    k = len(logits) if top_n < 0 else min(top_n, len(logits))
    top = descending(logits[None])[0] if k == len(logits) else top_columns(logits, k)
    values = np.concatenate([[chosen], logits[top]]).astype(np.float64) - log_total(logits)
    top_ids = top if ids is None else ids[top]
    with np.errstate(over="ignore"):  # the difference of two logits near ±FLT_MAX becomes −inf
        reported = values.astype(np.float32)
    return RowLogprobs(np.concatenate([[token_id], top_ids]), reported, better + equal + 1)


def log_sum_exp(logits: np.ndarray) -> float:
    """ln Σ exp(l) of one row in float64, for display and comparison; NaN for a row that contains NaN or +inf,
    or only −inf."""
    peak = np.float64(logits.max())
    with np.errstate(invalid="ignore"):
        return float(peak + np.log(np.exp(logits.astype(np.float64) - peak).sum()))


def gather(entries: Sequence[RowLogprobs | None]) -> Logprobs:
    """Rows with different k as one `Logprobs`."""
    k = max((len(e.token_ids) - 1 for e in entries if e is not None), default=0)
    out = Logprobs.empty(len(entries), k)
    for row, entry in enumerate(entries):
        if entry is not None:
            out.fill(row, entry)
    return out


def log_softmax(row: np.ndarray) -> np.ndarray:
    """The logprobs of all tokens of float32 `row` [vocab], as float32."""
    return (row.astype(np.float64) - log_total(row)).astype(np.float32)
