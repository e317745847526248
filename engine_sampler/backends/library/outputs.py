"""Where a library writes tokens, notes, logprobs and processed rows, and whether they can be believed.

One that may be left behind in a call gets memory of its own, from which its results are copied afterwards.
What a trusted one gives is used unchecked; any other is no longer called once it gives a token that does not
exist.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arithmetic import FLT_MAX, Logprobs
from ...contract import Batch, LogprobsRequest
from .binding import logprobs_struct
from .call_rows import CallRows, held
from .header import contract


class TokensOutput:
    """The tokens and notes of a call, and the masks that it reads.

    token_ids, notes, bitmask  the arrays of the batch that the struct points to.
    """

    def __init__(self, struct: Any, rows: CallRows, vocab_size: int, *, apart: bool) -> None:
        """`apart`: whether the library writes to memory of its own."""
        self.token_ids: Any = None
        self.notes: Any = None
        self.bitmask: Any = None
        self._struct = struct
        self._index = rows.index
        self._least = rows.least_tokens()
        self._vocab_size = vocab_size
        self._apart = apart
        self._from_buffer = contract().from_buffer
        self._int64s, self._doubles = map(contract().typeof, ("int64_t[]", "double[]"))

    def point_to(self, batch: Batch) -> None:
        """Point to the outputs and masks of `batch`."""
        struct, from_buffer = self._struct, self._from_buffer
        self.token_ids, self.notes, self.bitmask = batch.token_ids, batch.notes, batch.bitmask
        self._tokens_out, self._notes_out = self.token_ids, self.notes
        if self._apart:
            self._tokens_out, self._notes_out = self.token_ids.copy(), self.notes.copy()
            self.token_ids = None  # copy again next time: rows that are not written must stay without tokens
        struct.token_ids = from_buffer(self._int64s, self._tokens_out)
        struct.notes = from_buffer(self._doubles, self._notes_out)
        if self.bitmask is not None:
            words = self._words = np.ascontiguousarray(self.bitmask, np.int32)
            struct.bitmask, struct.bitmask_stride = from_buffer("int32_t[]", words), words.shape[1]
            if words is not self.bitmask:
                self.token_ids = None  # copy again next time

    def hand_out(self, batch: Batch) -> None:
        """Give `batch` the results that the library has written into memory of its own."""
        batch.token_ids[self._index] = self._tokens_out[self._index]
        batch.notes[self._index] = self._notes_out[self._index]

    def all_exist(self) -> bool:
        """Whether the library has drawn a token of the vocabulary for every row."""
        tokens = self._tokens_out.take(self._index)
        return bool(tokens.view(np.uint64).max() < self._vocab_size)  # −1 is the greatest

    def impossible(self) -> np.ndarray:
        """bool [n]: the rows for which it has drawn a token that does not exist."""
        tokens = self._tokens_out[self._index]
        wrong: np.ndarray = (tokens < self._least) | (tokens >= self._vocab_size)
        return wrong


class LogprobsOutput:
    """The logprobs of a call, written by the library into the tables of a request."""

    def __init__(self, struct: Any, rows: CallRows, vocab_size: int, *, apart: bool) -> None:
        """`apart`: whether the library writes to memory of its own."""
        self._struct = struct
        self._index = rows.index
        self._vocab_size = vocab_size
        self._apart = apart
        self._given_kinds: Any = None
        self._kinds, self._top_n = np.zeros(rows.n, np.uint8), np.zeros(rows.n, np.int64)
        rows.arrays["logprobs_kinds"] = contract().from_buffer("uint8_t[]", self._kinds)
        rows.arrays["top_n"] = contract().from_buffer("int64_t[]", self._top_n)
        rows.arrays["edits"] = held(
            "uint32_t[]", rows.each([entry.edits or 0 for entry in rows.entries]), np.uint32
        )

    def point_to(self, request: LogprobsRequest) -> None:
        """Point to the tables of `request`."""
        if request.kinds is not self._given_kinds:
            self._given_kinds = request.kinds
            np.take(request.kinds, self._index, out=self._kinds)
            np.take(request.top_n, self._index, out=self._top_n)
        out = request.out
        if self._apart:
            raw, penalized, processed = map(_empty_like, out)
            out = raw, penalized, processed
        self._out = out
        self._tables = logprobs_struct(out)
        self._struct.logprobs = self._tables[0]

    def hand_out(self, request: LogprobsRequest, declined: np.ndarray) -> None:
        """Give `request` the logprobs of all rows but those with the numbers `declined`."""
        written = np.delete(self._index, declined) if len(declined) else self._index
        for table, own in zip(request.out, self._out, strict=True):
            if table is not None and own is not None and own is not table:
                table.copy_rows(own, written)
        request.done[written] = True

    def clear(self, request: LogprobsRequest) -> None:
        """Leave `request` without entries for any row."""
        for table in filter(None, request.out):
            table.clear(self._index)

    def all_exist(self, declined: np.ndarray) -> bool:
        """Whether every token exists that is listed in a row which the library has run."""
        for table in filter(None, self._out):
            ids = table.entry_token_ids
            if len(declined):
                ids = ids.copy()
                for row in self._index[declined].tolist():
                    ids[table.starts[row] : table.starts[row + 1]] = -1
            if len(ids) and (ids.min() < -1 or ids.max() >= self._vocab_size):
                return False
        return True


class ProcessedOutput:
    """The rows of a call after their chains, written by the library to `Batch.processed`."""

    def __init__(self, rows: CallRows, *, apart: bool) -> None:
        """`apart`: whether the library writes to memory of its own."""
        ffi = contract()
        self._index = rows.index
        self._apart = apart
        self._addresses = np.zeros(rows.n, np.uintp)
        rows.arrays["processed"] = ffi.cast("float **", ffi.from_buffer("uintptr_t[]", self._addresses))

    def point_to(self, batch: Batch) -> None:
        """Point to the rows of `batch`."""
        assert batch.processed is not None
        out = self._out = np.empty_like(batch.processed) if self._apart else batch.processed
        np.multiply(self._index, out.strides[0], out=self._addresses, casting="unsafe")
        self._addresses += np.uintp(out.__array_interface__["data"][0])

    def impossible(self) -> np.ndarray:
        """bool [n]: the rows whose greatest logit is not finite."""
        peaks = self._out[self._index].max(axis=1)
        wrong: np.ndarray = ~((peaks > -np.inf) & (peaks <= FLT_MAX))
        return wrong

    def hand_out(self, batch: Batch, declined: np.ndarray) -> None:
        """Give `batch` all rows but those with the numbers `declined`, if they lie apart."""
        if self._apart and batch.processed is not None:
            written = np.delete(self._index, declined)
            batch.processed[written] = self._out[written]
        del self._out


def _empty_like(table: Logprobs | None) -> Logprobs | None:
    """A table of the same shape without entries."""
    return None if table is None else Logprobs.with_room(table.starts)
