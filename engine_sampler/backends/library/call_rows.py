"""The rows of a call to a library: which program runs each, and how it went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...contract import Batch, Group, Selector
from .header import contract, number
from .session import LibrarySession, Parts

STATUSES = range(number("ES_ROW_OK"), number("ES_ROW_DECLINED") + 1)
"""The statuses of rows that the header knows."""


class Entry(NamedTuple):
    """A group, and the program that runs it.

    edits  the number of the program for penalized logprobs, 0 if none are needed; None: the library reports
           no logprobs for this group.
    """

    group: Group
    parts: Parts
    number: int
    edits: int | None = None


class CallRows:
    """The rows of some groups, one group after the other, as the arrays of an `es_batch`.

    entries  the groups, and their programs.
    n        how many rows they have.
    index    int64 [n], their rows in the logits.
    status   int32 [n], as the library has written it; `status_bytes` is the same memory, `all_ok` what is
             there if it has run every row; nothing is if some are `unread`.
    unread   int64, ascending, the numbers of rows that the host runs: it does not read all their parameters.
    arrays   by field of the struct; others may be added before `point`.
    followers  called by `point` with the number of the first row.
    """

    def __init__(self, entries: Sequence[Entry], session: LibrarySession) -> None:
        ffi = contract()
        self.entries = entries
        self.followers: list[Callable[[int], None]] = []
        groups = [entry.group for entry in entries]
        self._sizes = [len(group.index) for group in groups]
        self._ends = np.cumsum(self._sizes)
        self.n = int(self._ends[-1])
        self.index = np.concatenate([group.index for group in groups]).astype(np.int64)
        self.status = np.zeros(self.n, np.int32)
        slots = np.concatenate([group.rows.slot_numbers for group in groups])
        self.arrays: dict[str, Any] = {
            "rows": ffi.from_buffer("int64_t[]", self.index),
            "slots": held("int32_t[]", slots, np.int32),
            "programs": held("uint32_t[]", self.each([entry.number for entry in entries]), np.uint32),
            "status": ffi.from_buffer("int32_t[]", self.status),
        }
        if any(group.masked for group in groups):
            self.arrays["masked"] = held("uint8_t[]", self.each([g.masked for g in groups]), np.uint8)
        self.status_bytes = ffi.buffer(self.arrays["status"])
        unread = [session.unread(entry.group, entry.parts) for entry in entries]
        starts = self._ends - self._sizes
        self.unread = np.concatenate([mine + start for mine, start in zip(unread, starts, strict=True)])
        self.all_ok = b"" if len(self.unread) else bytes(self.status.nbytes)

    def follow_groups(self) -> None:
        """Take over the rows of the groups, which may have moved."""
        np.concatenate([entry.group.index for entry in self.entries], out=self.index)

    def each(self, values: Sequence[Any]) -> np.ndarray:
        """One value for every row, [n], of one for every entry."""
        return np.repeat(values, self._sizes)

    def least_tokens(self) -> np.ndarray:
        """The least number that may stand in place of each row's token, int64 [n]: −1 where none is drawn."""
        return np.where(
            self.each([any(isinstance(part, Selector) for part in e.parts[-1:]) for e in self.entries]), 0, -1
        )

    def point(self, struct: Any, first: int = 0, end: int | None = None) -> None:
        """Let an `es_batch` have the rows from `first` to `end`."""
        for name, array in self.arrays.items():
            setattr(struct, name, array + first if first else array)
        for follow in self.followers:
            follow(first)
        struct.n = (self.n if end is None else end) - first

    def entry_of(self, row: int) -> tuple[Entry, int]:
        """The entry of row number `row`, and where its rows end."""
        i = int(np.searchsorted(self._ends, row, side="right"))
        return self.entries[i], int(self._ends[i])

    def by_entry(self, which: np.ndarray) -> list[tuple[Entry, np.ndarray]]:
        """The entries that have rows among those with the ascending numbers `which`, and the places of these
        within each, int64."""
        first, found = 0, []
        for entry, end in zip(self.entries, self._ends.tolist(), strict=True):
            if len(members := which[(which >= first) & (which < end)] - first):
                found.append((entry, members))
            first = end
        return found


class SurvivorsOutput:
    """The survivors of a call's rows, of the entries for which they are `wanted`."""

    def __init__(self, rows: CallRows, wanted: Sequence[bool], vocab_size: int) -> None:
        ffi = contract()
        which = np.flatnonzero(rows.each(wanted))
        self._which: list[int] = which.tolist()
        self._index = rows.index
        self._values = np.empty((len(which), vocab_size), np.float32)
        if self._which:
            pointers = rows.arrays["processed"] = ffi.new("float *[]", rows.n)
            for i, row in zip(self._which, self._values, strict=True):
                pointers[i] = ffi.from_buffer("float[]", row)

    def __len__(self) -> int:
        return len(self._which)

    def hand_out(self, batch: Batch, declined: np.ndarray) -> None:
        """Give `batch` the survivors of all rows but those with the numbers `declined`."""
        for i, values in zip(self._which, self._values, strict=True):
            if i not in declined:
                alive = np.flatnonzero(values > -np.inf)
                batch.survivors[int(self._index[i])] = alive, values[alive]


def held(kind: str, values: np.ndarray, dtype: type) -> Any:
    """A C array of `values`, which keeps them alive."""
    return contract().from_buffer(kind, np.ascontiguousarray(values, dtype))
