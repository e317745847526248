"""What a library's cut leaves of each row, for the host to go on with (`es_survivors`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....arithmetic import FLT_MAX
from ..call_rows import CallRows
from ..header import contract, sized


class SurvivorsTable:
    """The survivors of the rows of a call, in the host's memory."""

    def __init__(self, struct: Any, rows: CallRows, width: int, vocab_size: int) -> None:
        ffi = contract()
        self._width, self._vocab_size = width, vocab_size
        self._rows = rows
        self._counts = np.zeros(rows.n, np.int64)
        self._ids = np.zeros((rows.n, width), np.int64)
        self._logits = np.zeros((rows.n, width), np.float32)
        self._pointers = (
            ffi.from_buffer("int64_t[]", self._counts),
            ffi.cast(f"int64_t(*)[{width}]", ffi.from_buffer(self._ids)),
            ffi.cast(f"float(*)[{width}]", ffi.from_buffer(self._logits)),
        )
        self._table = sized("es_survivors", width=width)
        struct.survivors = self._table
        rows.followers.append(self._point)
        self._point(0)

    def _point(self, first: int) -> None:
        """Let the table begin with row number `first` of the call."""
        counts, ids, logits = self._pointers
        self._table.counts = counts + first
        self._table.token_ids = contract().cast("int64_t *", ids + first)
        self._table.logits = contract().cast("float *", logits + first)

    def all_possible(self) -> bool:
        """Whether the survivors of all rows are such."""
        return not self.impossible().any()

    def impossible(self) -> np.ndarray:
        """bool [n]: the rows whose survivors are none, too many, not ascending tokens, or not finite."""
        columns = np.arange(self._width)
        alive = columns < self._counts[:, None]
        wrong = (self._counts < 1) | (self._counts > self._width)
        ascends = self._ids[:, 1:] > self._ids[:, :-1]
        wrong |= (~ascends & alive[:, 1:]).any(axis=1)
        wrong |= (((self._ids < 0) | (self._ids >= self._vocab_size)) & alive).any(axis=1)
        wrong |= (~(np.abs(self._logits) <= FLT_MAX) & alive).any(axis=1)
        return wrong

    def by_row(self, declined: np.ndarray) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """(ids, logits) by row of the logits, of all rows but those with the numbers `declined`."""
        taken = np.delete(np.arange(self._rows.n), declined)
        counts = self._counts[taken].tolist()
        return {
            int(self._rows.index[i]): (self._ids[i, :count].copy(), self._logits[i, :count].copy())
            for i, count in zip(taken.tolist(), counts, strict=True)
        }
