"""`LogprobsTable`: logprobs of rows as one table of fixed width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arithmetic import LogitRows, RowFault, checked_row, log_total
from ..backends.scoring import logprobs_of
from ..base.arguments import integer_of, integers_of, one_of
from ..contract import Backend, ParameterError

MODES = ("raw_logprobs", "processed_logprobs", "raw_logits", "processed_logits")
"""What a table may show: logprobs or logits, those that came or those after the chain."""

_MOST_GIVEN = 1024
"""The most tokens that a call may name for a row."""


@dataclass(frozen=True, eq=False)
class LogprobsTable:
    """Values of some tokens of every row, the chosen token first. Objects are equal only to themselves.

    token_ids  int64 [rows, 1 + n], −1 where a row has no entry.
    logprobs   float32 [rows, 1 + n], NaN where there is none; logits in the modes `raw_logits` and
               `processed_logits`.
    ranks      int64 [rows], the chosen token's rank in (logit desc, id asc) order, from 1; 0 for a row that
               gave no token.
    """

    token_ids: np.ndarray
    logprobs: np.ndarray
    ranks: np.ndarray

    def by_id(self) -> np.ndarray:
        """The values of a table of all tokens in the order of the ids: float32 [rows, vocab], −inf where it
        has none."""
        values = np.full((len(self.token_ids), self.token_ids.shape[1] - 1), -np.inf, np.float32)
        for row, ids, found in zip(values, self.token_ids[:, 1:], self.logprobs[:, 1:], strict=True):
            present = ids >= 0
            row[ids[present]] = found[present]
        return values


@dataclass(frozen=True)
class Wanted:
    """The tables that a step makes.

    top_n   how many of the likeliest tokens the table has beside the chosen; −1 = all, None: no such table.
    mode    one of `MODES`.
    given   the tokens of each row that another table has; None: no such table.
    """

    top_n: int | None
    mode: str
    given: list[list[int]] | None

    @classmethod
    def of(cls, top_n: int | None, mode: str, requested: Any, rows: int, vocab_size: int) -> Wanted | None:
        """What the arguments of a call ask for. Raises `ParameterError` or ValueError."""
        one_of(MODES, "logprobs_mode", mode)
        if top_n is not None:
            integer_of("logprobs", top_n, -1)
        if requested is None:
            return None if top_n is None else cls(top_n, mode, None)
        if len(requested) != rows:
            raise ValueError(f"logprob_token_ids has {len(requested)} entries for {rows} rows")
        lists = [[] if ids is None else integers_of("logprob_token_ids", ids) for ids in requested]
        for ids in lists:
            if len(ids) > _MOST_GIVEN or any(not 0 <= token_id < vocab_size for token_id in ids):
                raise ParameterError(
                    f"logprob_token_ids has a row of {len(ids)}: at most {_MOST_GIVEN} ids below {vocab_size}"
                )
        return cls(top_n, mode, lists)

    @property
    def of_processed(self) -> bool:
        """Whether the rows after their chains are needed."""
        return self.mode.startswith("processed")

    @property
    def of_logits(self) -> bool:
        """Whether the tables have logits."""
        return self.mode.endswith("logits")

    def table(self, rows: LogitRows, token_ids: np.ndarray, backend: Backend) -> LogprobsTable | None:
        """The likeliest tokens of `rows`, in which `token_ids` [rows] were chosen."""
        if self.top_n is None:
            return None
        has_token = token_ids >= 0
        likeliest = logprobs_of(rows, np.where(has_token, token_ids, 0), self.top_n, backend)
        width = 1 + (rows.vocab_size if self.top_n < 0 else self.top_n)
        table = _empty(len(rows), width)
        columns = min(width, likeliest.token_ids.shape[1])
        table.token_ids[:, :columns] = likeliest.token_ids[:, :columns]
        table.logprobs[:, :columns] = likeliest.logprobs[:, :columns]
        table.ranks[:] = likeliest.ranks
        for i in np.flatnonzero(~has_token).tolist():
            table.token_ids[i], table.logprobs[i], table.ranks[i] = -1, np.nan, 0
        if self.of_logits:
            _put_logits(table, rows)
        return table

    def given_table(self, rows: LogitRows, token_ids: np.ndarray) -> LogprobsTable | None:
        """The tokens that were named, behind the chosen ones."""
        if self.given is None:
            return None
        table = _empty(len(rows), 1 + max(map(len, self.given), default=0))
        for i, (chosen, ids) in enumerate(zip(token_ids.tolist(), self.given, strict=True)):
            if chosen < 0:
                continue
            table.token_ids[i, : 1 + len(ids)] = [chosen, *ids]
        _put_logits(table, rows)
        for i in np.flatnonzero(token_ids >= 0).tolist():
            row, chosen = rows.row(i), table.logprobs[i, 0]
            before = row[: int(token_ids[i])]
            table.ranks[i] = 1 + int((row > chosen).sum()) + int((before == chosen).sum())
            if not self.of_logits:
                values = table.logprobs[i].astype(np.float64) - _log_total(row)
                table.logprobs[i] = values.astype(np.float32)
        return table


def _empty(rows: int, width: int) -> LogprobsTable:
    values: np.ndarray = np.full((rows, width), np.nan, np.float32)
    return LogprobsTable(np.full((rows, width), -1), values, np.zeros(rows, np.int64))


def _put_logits(table: LogprobsTable, rows: LogitRows) -> None:
    """Put the logits of the tokens of a table in the places of its values."""
    rows.fetch()
    for i, ids in enumerate(table.token_ids):
        present = ids >= 0
        if present.any():
            table.logprobs[i, present] = rows.row(i)[ids[present]]


def _log_total(row: np.ndarray) -> float:
    try:
        return log_total(checked_row(row))
    except RowFault:
        return float("nan")
