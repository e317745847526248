"""The logprobs and ranks of tokens that somebody has named, as `row_logprobs` defines them one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..base.plain_json import _PlainJson, floats, integers
from .logprobs import log_total


class RowGiven(NamedTuple):
    """One row of `GivenLogprobs`: int64 [k], float32 [k] and int64 [k]."""

    token_ids: np.ndarray
    logprobs: np.ndarray
    ranks: np.ndarray


@dataclass(frozen=True, eq=False)
class GivenLogprobs(_PlainJson):
    """The logprobs and ranks of named tokens, row by row.

    token_ids  int64 [entries], row after row, in the order in which the request names them.
    logprobs   float32 [entries], −inf for a token that has been removed, NaN in a faulty row.
    ranks      int64 [entries], each one's rank in (logit desc, id asc) order, from 1; that of a removed token
               is after all others, and 0 stands in a faulty row.
    starts     int64 [rows + 1]: row r has the entries starts[r] : starts[r + 1].
    modes      the tables of all modes by name, if a request has several: then the rows here are of the first
               of raw, penalized and processed that each request has. {} otherwise.

    Objects are equal only to themselves: compare the arrays.
    """

    token_ids: np.ndarray
    logprobs: np.ndarray
    ranks: np.ndarray
    starts: np.ndarray
    modes: Mapping[str, GivenLogprobs] = field(default_factory=dict)

    _READERS = {
        **dict.fromkeys(("token_ids", "ranks", "starts"), integers),
        "logprobs": floats,
        "modes": lambda modes: {name: GivenLogprobs.from_dict(table) for name, table in modes.items()},
    }

    @classmethod
    def of(cls, rows: Sequence[RowGiven | None]) -> GivenLogprobs:
        """Some rows; None is one without entries."""
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([0 if row is None else len(row.token_ids) for row in rows], out=starts[1:])
        entries = [row for row in rows if row is not None]
        return cls(
            np.concatenate([np.empty(0, np.int64), *(row.token_ids for row in entries)]),
            np.concatenate([np.empty(0, np.float32), *(row.logprobs for row in entries)]),
            np.concatenate([np.empty(0, np.int64), *(row.ranks for row in entries)]),
            starts,
        )

    def _check_lengths(self) -> None:
        if {int(self.starts[-1])} != {len(self.token_ids), len(self.logprobs), len(self.ranks)}:
            raise ValueError("its arrays have other lengths")

    def row(self, row: int) -> RowGiven:
        """The entries of one row: views of the arrays."""
        here = slice(int(self.starts[row]), int(self.starts[row + 1]))
        return RowGiven(self.token_ids[here], self.logprobs[here], self.ranks[here])

    @property
    def by_mode(self) -> Mapping[str, GivenLogprobs]:
        """`modes`, or these rows under "" if there are none."""
        return self.modes or {"": self}


def given_logprobs(logits: np.ndarray, token_ids: np.ndarray, ids: np.ndarray | None = None) -> RowGiven:
    """The logprobs and ranks of `token_ids` int64 [k] in one row of float32 `logits` [m].

    ids: the token of each column, ascending; None if column j is token j. A token that has no column or is
    −inf has logprob −inf and the rank after all others.
    """
    columns, chosen = token_ids, np.full(len(token_ids), -np.inf, np.float32)
    if ids is None:
        chosen = logits[columns]
    else:
        columns = np.searchsorted(ids, token_ids)
        inside = np.minimum(columns, len(ids) - 1)
        present = ids[inside] == token_ids
        chosen[present] = logits[inside[present]]
    edges = np.sort(chosen)
    reached = np.flatnonzero(logits >= edges[0])
    values = logits[reached]
    below = np.searchsorted(edges, values)  # how many of the chosen are less than each
    better = len(values) - np.cumsum(np.bincount(below))[np.searchsorted(edges, chosen)]
    is_equal = edges[np.minimum(below, len(edges) - 1)] == values
    others, their_values = reached[is_equal], values[is_equal]
    ties = [
        int((their_values[: np.searchsorted(others, column)] == value).sum()) if value > -np.inf else 0
        for column, value in zip(columns.tolist(), chosen, strict=True)
    ]
    with np.errstate(over="ignore"):  # the difference of two logits near ±FLT_MAX becomes −inf
        reported = (chosen.astype(np.float64) - log_total(logits)).astype(np.float32)
    return RowGiven(token_ids, reported, better + ties + 1)
