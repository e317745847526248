"""Log-probabilities for users, as the arithmetic contract defines them: the chosen token first."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..base.cached import cached_property
from ..base.plain_json import _PlainJson, floats, integers
from .integer_weights import LN_2, distances, log2_mass, weights
from .ranking import descending, top_columns


@dataclass(frozen=True, eq=False)
class Logprobs(_PlainJson):
    """The logprobs of some rows, each with as many entries as it needs: the chosen token first, then the
    likeliest in order.

    entry_token_ids, entry_logprobs  int64 and float32 [entries], row after row; −1 and NaN where a row has
            fewer entries than it was given room for.
    starts  int64 [rows + 1]: row r has the entries starts[r] : starts[r + 1].
    ranks   int64 [rows], the chosen token's rank in (logit desc, id asc) order, from 1; 0 for a row without
            entries.

    `row(r)` is one row. `token_ids` and `logprobs` are all rows as one table, as wide as the longest: of rows
    that differ much in length, it can be far larger than the entries.

    modes   the tables of all modes by name, if a request has several: then the rows here are of the first of
            raw, penalized and processed that each request has. {} otherwise.

    Objects are equal only to themselves: compare the arrays.
    """

    entry_token_ids: np.ndarray
    entry_logprobs: np.ndarray
    starts: np.ndarray
    ranks: np.ndarray
    modes: Mapping[str, Logprobs] = field(default_factory=dict)

    _READERS = {
        **dict.fromkeys(("entry_token_ids", "starts", "ranks"), integers),
        "entry_logprobs": floats,
        "modes": lambda modes: {name: Logprobs.from_dict(table) for name, table in modes.items()},
    }

    @classmethod
    def empty(cls, rows: int, k: int) -> Logprobs:
        """Rows without entries, with room for the chosen token and k others."""
        return cls.with_room(np.arange(0, (rows + 1) * (1 + k), 1 + k))

    @classmethod
    def with_room(cls, starts: np.ndarray) -> Logprobs:
        """Rows without entries, with the room that `starts` int64 [rows + 1] gives to each, at least 1."""
        entries = int(starts[-1])
        token_ids, logprobs = np.empty(entries, np.int64), np.empty(entries, np.float32)
        token_ids.fill(-1)
        logprobs.fill(np.nan)
        return cls(token_ids, logprobs, starts, np.zeros(len(starts) - 1, np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Logprobs]) -> Logprobs:
        """The rows of all `parts`, one or more, in order."""
        lengths = np.concatenate([np.diff(part.starts) for part in parts])
        return cls(
            np.concatenate([part.entry_token_ids for part in parts]),
            np.concatenate([part.entry_logprobs for part in parts]),
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([part.ranks for part in parts]),
        )

    def _check_lengths(self) -> None:
        if self.starts[-1] != len(self.entry_token_ids) or len(self.ranks) != len(self.starts) - 1:
            raise ValueError("its arrays have other lengths")

    @cached_property
    def token_ids(self) -> np.ndarray:
        """int64 [rows, 1 + k], the chosen token first; −1 where a row has no entry."""
        return self._table(self.entry_token_ids, -1)

    @cached_property
    def logprobs(self) -> np.ndarray:
        """float32 [rows, 1 + k], in the places of `token_ids`; NaN where a row has no entry."""
        return self._table(self.entry_logprobs, np.nan)

    @property
    def by_mode(self) -> Mapping[str, Logprobs]:
        """`modes`, or these rows under "" if there are none."""
        return self.modes or {"": self}

    def row(self, row: int) -> RowLogprobs:
        """The entries of one row, without missing ones: views of the arrays."""
        start, end = int(self.starts[row]), int(self.starts[row + 1])
        end = start + _present(self.entry_token_ids[start:end])
        return RowLogprobs(
            self.entry_token_ids[start:end], self.entry_logprobs[start:end], int(self.ranks[row])
        )

    def fill(self, row: int, entry: RowLogprobs) -> None:
        """Store `entry` in a row."""
        start = self.starts[row]
        end = start + len(entry.token_ids)
        self.entry_token_ids[start:end] = entry.token_ids
        self.entry_logprobs[start:end] = entry.logprobs
        self.ranks[row] = entry.rank

    def copy_rows(self, other: Logprobs, rows: np.ndarray) -> None:
        """Take over `rows` of `other`, which has the same `starts`."""
        for start, end in self._ranges(rows):
            self.entry_token_ids[start:end] = other.entry_token_ids[start:end]
            self.entry_logprobs[start:end] = other.entry_logprobs[start:end]
        self.ranks[rows] = other.ranks[rows]

    def clear(self, rows: np.ndarray) -> None:
        """Leave `rows` without entries."""
        for start, end in self._ranges(rows):
            self.entry_token_ids[start:end], self.entry_logprobs[start:end] = -1, np.nan
        self.ranks[rows] = 0

    def trimmed(self) -> Logprobs:
        """A copy trimmed to the entries in use: rows of one width are cut to the longest, others each to its
        own entries, at least one."""
        if (self.entry_token_ids[self.starts[1:] - 1] >= 0).all():
            return self  # every row uses all of its room
        return self._cut_each() if self._width is None else self._cut_all(self._width)

    def _cut_all(self, width: int) -> Logprobs:
        ids = self.token_ids
        used = 1 + bisect_left(range(1, width), True, key=lambda column: bool((ids[:, column] < 0).all()))
        if used == width:
            return self
        starts = np.arange(0, (len(ids) + 1) * used, used)
        return Logprobs(ids[:, :used].ravel(), self.logprobs[:, :used].ravel(), starts, self.ranks)

    def _cut_each(self) -> Logprobs:
        lengths = np.diff(self.starts)
        for row in np.flatnonzero(self.entry_token_ids[self.starts[1:] - 1] < 0).tolist():
            start, end = self.starts[row], self.starts[row + 1]
            lengths[row] = max(1, _present(self.entry_token_ids[start:end]))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        if starts[-1] == self.starts[-1]:
            return self
        out = Logprobs.with_room(starts)
        for row, (start, end) in enumerate(itertools.pairwise(starts.tolist())):
            here = slice(self.starts[row], self.starts[row] + end - start)
            out.entry_token_ids[start:end] = self.entry_token_ids[here]
            out.entry_logprobs[start:end] = self.entry_logprobs[here]
        return replace(out, ranks=self.ranks)

    @cached_property
    def _width(self) -> int | None:
        """The room of every row; None if rows differ in length."""
        rows, entries = len(self.ranks), int(self.starts[-1])
        if not rows:
            return 1
        width = entries // rows
        return width if (np.diff(self.starts) == width).all() else None

    def _table(self, entries: np.ndarray, missing: float) -> np.ndarray:
        """`entries` as rows of one width: a view if all rows have it."""
        rows = len(self.ranks)
        if self._width is not None:
            return entries.reshape(rows, self._width)
        lengths = np.diff(self.starts)
        table: np.ndarray = np.full((rows, int(lengths.max())), missing, entries.dtype)
        table[np.arange(table.shape[1]) < lengths[:, None]] = entries
        return table

    def _ranges(self, rows: np.ndarray) -> Iterator[tuple[int, int]]:
        return zip(self.starts[rows].tolist(), self.starts[rows + 1].tolist(), strict=True)


def _present(token_ids: np.ndarray) -> int:
    """How many entries of a row there are. They have no gaps, so the end is found by bisection, however long
    the row is."""
    return bisect_left(range(len(token_ids)), True, key=lambda i: bool(token_ids[i] < 0))


@dataclass(frozen=True, eq=False)
class RowLogprobs:
    """One row of `Logprobs`: int64 [1 + k], float32 [1 + k], and the rank."""

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
