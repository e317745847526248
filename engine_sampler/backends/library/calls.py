"""One step as one call: everything that depends on the groups only is prepared once."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...arithmetic import LogitRows, Logprobs
from ...contract import Batch, Group, LogprobsRequest, Selector
from .binding import Layout, Refusal, logprobs_struct
from .header import contract, number, sized
from .session import LibrarySession, Parts
from .tensor import prepare, type_of
from .watchdog import leave_behind


class Entry(NamedTuple):
    """A group, and the program that runs it.

    edits  the number of the program for penalized logprobs, 0 if none are needed; None: the library reports
           no logprobs for this group.
    """

    group: Group
    parts: Parts
    number: int
    edits: int | None = None


class Fallback(Protocol):
    """Takes over what a library declines.

    lost  whether the library must no longer be called.
    """

    lost: bool

    def run_on_host(self, batch: Batch, group: Group, members: np.ndarray) -> None:
        """Run the requests `members` of `group` on the host."""

    def refuse(self, session: LibrarySession, parts: Parts) -> None:
        """The library does not run the program of `parts` after all."""

    def lose(self, reason: str) -> None:
        """The library's device is lost."""


def layout_of(logits: LogitRows, vocab_size: int) -> Layout:
    """The memory layout of `logits`."""
    array = logits.array
    compact = len(array) < 2 or array.strides[0] == vocab_size * array.itemsize
    return Layout(*type_of(logits), compact)


class Call:
    """The rows of some groups, prepared for a library and reused while the groups stay the same.

    A step updates only what has changed: logits, outputs, masks, and arrays that have grown.
    """

    def __init__(
        self,
        session: LibrarySession,
        fallback: Fallback,
        entries: Sequence[Entry],
        layout: Layout,
        max_rows: int = 0,
        *,
        reports: bool = False,
    ) -> None:
        """`reports`: whether the library writes the logprobs of all entries, so that no survivors are
        needed."""
        self._session = session
        self._fallback = fallback
        self._entries = entries
        self._layout = layout
        self._reports = reports
        self._generation = session.generation
        self._watched = session.watched
        self._trusted = session.trusted
        self.ended: list[int] = []
        """The rows that the last run has ended, with an error."""
        groups = [entry.group for entry in entries]
        self._slots = groups[0].rows.slots
        self._vocab_size = self._slots.vocabulary.size
        self._ends = np.cumsum([len(group.index) for group in groups])
        self._n = int(self._ends[-1])
        self._max_rows = max_rows or self._n
        self._run = session.step if self._n <= self._max_rows else _too_many
        self._context = session.context.pointer
        self._from_buffer = contract().from_buffer
        self._int64s, self._doubles = map(contract().typeof, ("int64_t[]", "double[]"))
        self._offsets: Any = None
        self._logits: Any = _nothing
        self._form: Any = None
        self._token_ids: Any = None
        self._notes: Any = None
        self._bitmask: Any = None
        self._struct = self._prepare(groups)

    def run(self, batch: Batch) -> bool:
        """Fill `batch` for the groups; False if this call does not fit it, and a new one is needed."""
        if batch.logits is not self._logits() and not self._point_to_logits(batch.logits):
            return False
        if (
            batch.token_ids is not self._token_ids
            or batch.notes is not self._notes
            or batch.bitmask is not self._bitmask
        ):
            self._point_to_outputs(batch)
        if self._reports and batch.logprobs is not None:
            self._report_to(batch.logprobs)
        if self._slots.offsets is not self._offsets:
            self._point_to_slots()
        try:
            code = self._run(self._context, self._struct)
            if code or self._status_bytes[:] != self._all_ok or not (self._trusted or self._all_exist()):
                declined = self._run_declined(batch, code)
            else:
                declined = _NO_ROWS
                if self._watched:
                    self._hand_out(batch)
        finally:
            if self._watched and self._session.library.quarantined:
                self._session.table.leave()
                leave_behind(self, self._session, batch)
        if self._want_processed:
            self._collect(batch, declined)
        if self._reports and batch.logprobs is not None:
            self._confirm(batch, batch.logprobs, declined)
        return True

    # --- preparation -----------------------------------------------------------------------------

    def _prepare(self, groups: Sequence[Group]) -> Any:
        ffi = contract()
        struct = sized("es_batch", n=self._n, vocab_size=self._vocab_size, table=self._session.table.pointer)
        self._index = np.concatenate([group.index for group in groups]).astype(np.int64)
        sizes = [len(group.index) for group in groups]
        self._status = np.zeros(self._n, np.int32)
        self._arrays = {
            "rows": ffi.from_buffer("int64_t[]", self._index),
            "slots": _held("int32_t[]", np.concatenate([g.rows.slot_numbers for g in groups]), np.int32),
            "programs": _held("uint32_t[]", np.repeat([e.number for e in self._entries], sizes), np.uint32),
            "status": ffi.from_buffer("int32_t[]", self._status),
        }
        selecting = [isinstance(entry.parts[-1], Selector) for entry in self._entries]
        self._least_tokens = np.where(np.repeat(selecting, sizes), 0, -1)
        if any(group.masked for group in groups):
            masked = np.repeat([group.masked for group in groups], sizes)
            self._arrays["masked"] = _held("uint8_t[]", masked, np.uint8)
        if self._reports:
            self._given_kinds: Any = None
            self._kinds, self._top_n = np.zeros(self._n, np.uint8), np.zeros(self._n, np.int64)
            self._arrays["logprobs_kinds"] = ffi.from_buffer("uint8_t[]", self._kinds)
            self._arrays["top_n"] = ffi.from_buffer("int64_t[]", self._top_n)
            edits = np.repeat([entry.edits or 0 for entry in self._entries], sizes)
            self._arrays["edits"] = _held("uint32_t[]", edits, np.uint32)
        survivors = [group.want_processed and not self._reports for group in groups]
        indices = np.flatnonzero(np.repeat(survivors, sizes))
        self._want_processed: list[int] = indices.tolist()
        if self._want_processed:
            self._processed = np.empty((len(indices), self._vocab_size), np.float32)
            self._arrays["processed"] = ffi.new("float *[]", self._n)
            for i, row in zip(self._want_processed, self._processed, strict=True):
                self._arrays["processed"][i] = ffi.from_buffer("float[]", row)
        for name, array in self._arrays.items():
            setattr(struct, name, array)
        self._status_bytes, self._all_ok = ffi.buffer(self._arrays["status"]), bytes(self._status.nbytes)
        self._tensor = struct.logits
        self._shape, self._strides = prepare(self._tensor, self._layout.code, self._layout.bits)
        return struct

    # --- what a step updates ----------------------------------------------------------------------

    def _point_to_logits(self, logits: LogitRows) -> bool:
        """Read from `logits`, which are not kept alive; False if their layout differs, or if the library has
        declined a program meanwhile."""
        if self._generation != self._session.generation:
            return False
        array = logits.array
        form = array.shape, array.strides, array.dtype, logits.bfloat16
        if form != self._form:
            if layout_of(logits, self._vocab_size) != self._layout:
                return False
            self._shape[0], self._shape[1] = array.shape
            self._form = form
        flags = array.flags
        self._logits = weakref.ref(logits)
        if not flags.aligned:  # es_tensor counts in whole elements
            array = self._copied = array.copy(order="C")
            self._logits = _nothing
        self._strides[0] = array.strides[0] // array.itemsize
        if flags.c_contiguous:
            self._tensor.data = self._from_buffer(array)
        else:
            self._tensor.data = contract().cast("void *", array.__array_interface__["data"][0])
        return True

    def _point_to_outputs(self, batch: Batch) -> None:
        """Point to the outputs and masks of `batch`."""
        struct, from_buffer = self._struct, self._from_buffer
        self._token_ids, self._notes, self._bitmask = batch.token_ids, batch.notes, batch.bitmask
        self._tokens_out, self._notes_out = self._token_ids, self._notes
        if self._watched:
            self._tokens_out, self._notes_out = self._token_ids.copy(), self._notes.copy()
        struct.token_ids = from_buffer(self._int64s, self._tokens_out)
        struct.notes = from_buffer(self._doubles, self._notes_out)
        if self._bitmask is not None:
            words = self._words = np.ascontiguousarray(self._bitmask, np.int32)
            struct.bitmask, struct.bitmask_stride = from_buffer("int32_t[]", words), words.shape[1]
            if words is not self._bitmask:
                self._token_ids = None  # copy again next time

    def _report_to(self, request: LogprobsRequest) -> None:
        """Write logprobs into the tables of `request`."""
        if request.kinds is not self._given_kinds:
            self._given_kinds = request.kinds
            np.take(request.kinds, self._index, out=self._kinds)
            np.take(request.top_n, self._index, out=self._top_n)
        out = request.out
        if self._watched:
            raw, penalized, processed = map(_empty_like, out)
            out = raw, penalized, processed
        self._tables_out = out
        self._tables = logprobs_struct(out)
        self._struct.logprobs = self._tables[0]

    def _point_to_slots(self) -> None:
        """Point to the slots' current arrays, some of which have been replaced."""
        self._session.table.refresh()
        self._offsets = self._slots.offsets

    # --- errors and declined rows ---------------------------------------------------------------

    def _run_declined(self, batch: Batch, code: int) -> np.ndarray:
        """Have the host run what the library did not; returns the indices of these rows."""
        declined = np.array(self._pieces(0, self._n, code), np.int64)
        if not self._trusted:
            declined = self._without_impossible(declined)
        if self._watched and not self._session.library.quarantined:
            self._hand_out(batch)
        self._session.functions.raise_interruption()
        if not len(declined):
            return declined
        batch.token_ids[self._index[declined]] = -1
        batch.notes[self._index[declined]] = np.nan
        unknown = declined[~np.isin(self._status[declined], _STATUSES)]
        self.ended = self._index[unknown].tolist()
        for row, status in zip(self.ended, self._status[unknown].tolist(), strict=True):
            batch.errors[row] = f"{self._session.library.name} gave the row an unknown status: {status}"
        hosted = np.setdiff1d(declined, unknown)
        for i, entry in enumerate(self._entries):
            first, end = self._bounds(i)
            members = hosted[(hosted >= first) & (hosted < end)] - first
            if len(members):
                self._fallback.run_on_host(batch, entry.group, members)
        return declined

    def _hand_out(self, batch: Batch) -> None:
        """Copy the results, which the library has written into memory of its own."""
        batch.token_ids[self._index] = self._tokens_out[self._index]
        batch.notes[self._index] = self._notes_out[self._index]

    def _all_exist(self) -> bool:
        """Whether the library has drawn a token of the vocabulary for every row."""
        tokens = self._tokens_out.take(self._index)
        return bool(tokens.view(np.uint64).max() < self._vocab_size)  # −1 is the greatest

    def _without_impossible(self, declined: np.ndarray) -> np.ndarray:
        """The rows `declined` and all others whose token does not exist; with such a token, the library is no
        longer called."""
        if self._session.library.quarantined:
            return declined
        tokens = self._tokens_out[self._index]
        wrong = (tokens < self._least_tokens) | (tokens >= self._vocab_size)
        wrong[declined] = False
        if not wrong.any():
            return declined
        self._fallback.lose("it draws a token that is not in the vocabulary")
        self._status[wrong] = number("ES_ROW_DECLINED")
        return np.union1d(declined, np.flatnonzero(wrong))

    def _pieces(self, first: int, end: int, code: int) -> Iterable[int]:
        """The rows from `first` to `end` that the library leaves to the host, after it returned `code` for
        all of them: as the header defines, it is called again with fewer rows, or not at all."""
        if code == number("ES_OK"):
            return first + np.flatnonzero(self._status[first:end])
        everything = range(first, end)
        self._status[first:end] = number("ES_ROW_DECLINED")
        middle = self._division(first, end, code)
        if middle is not None:
            pieces = ((first, middle), (middle, end))
            return [i for a, b in pieces for i in self._pieces(a, b, self._run_piece(a, b))]
        try:
            self._session.context.check("run", code)
        except Refusal as refusal:
            if code == number("ES_DEVICE"):
                self._fallback.lose(str(refusal))
            elif code == number("ES_UNSUPPORTED"):
                self._fallback.refuse(self._session, self._entries[self._entry_at(first)].parts)
                self._logits = _nothing
        return everything

    def _division(self, first: int, end: int, code: int) -> int | None:
        """Where to split rows that were declined as a whole; None if splitting does not help."""
        if code == number("ES_NO_MEMORY") and end - first > 1:
            return (first + end) // 2
        entry = self._entry_at(first)
        if code == number("ES_UNSUPPORTED") and end > self._ends[entry]:
            return int(self._ends[entry])
        return None

    def _run_piece(self, first: int, end: int) -> int:
        """Run some of the rows on the library; returns its code."""
        if self._fallback.lost:
            return number("ES_DEVICE")
        if end - first > self._max_rows:
            return number("ES_NO_MEMORY")
        struct = self._struct
        for name, array in self._arrays.items():
            setattr(struct, name, array + first)
        struct.n = end - first
        code = self._session.step(self._context, struct)
        for name, array in self._arrays.items():
            setattr(struct, name, array)
        struct.n = self._n
        return code

    def _entry_at(self, i: int) -> int:
        return int(np.searchsorted(self._ends, i, side="right"))

    def _bounds(self, i: int) -> tuple[int, int]:
        return int(self._ends[i - 1]) if i else 0, int(self._ends[i])

    # --- logprobs and survivors --------------------------------------------------------------------

    def _confirm(self, batch: Batch, request: LogprobsRequest, declined: np.ndarray) -> None:
        """Mark the logprobs that have been written; none are if there is an impossible token among them."""
        written = np.delete(self._index, declined) if len(declined) else self._index
        if self._trusted or self._lists_tokens(declined):
            for table, own in zip(request.out, self._tables_out, strict=True):
                if table is not None and own is not None and own is not table:
                    table.copy_rows(own, written)
            request.done[written] = True
            return
        for table in filter(None, request.out):
            table.clear(self._index)
        for entry in self._entries:
            self._fallback.run_on_host(batch, entry.group, np.arange(len(entry.group.index)))
        self._fallback.lose("it reports the logprob of a token that is not in the vocabulary")

    def _lists_tokens(self, declined: np.ndarray) -> bool:
        """Whether every token exists that is listed in a row which the library has run."""
        for table in filter(None, self._tables_out):
            ids = table.entry_token_ids
            if len(declined):
                ids = ids.copy()
                for row in self._index[declined].tolist():
                    ids[table.starts[row] : table.starts[row + 1]] = -1
            if len(ids) and (ids.min() < -1 or ids.max() >= self._vocab_size):
                return False
        return True

    def _collect(self, batch: Batch, declined: np.ndarray) -> None:
        for i, values in zip(self._want_processed, self._processed, strict=True):
            if i not in declined:
                alive = np.flatnonzero(values > -np.inf)
                batch.survivors[int(self._index[i])] = alive, values[alive]


_NO_ROWS = np.empty(0, np.int64)

_STATUSES = range(number("ES_ROW_OK"), number("ES_ROW_DECLINED") + 1)
"""The statuses of rows that the header knows."""


def _empty_like(table: Logprobs | None) -> Logprobs | None:
    """A table of the same shape without entries."""
    return None if table is None else Logprobs.with_room(table.starts)


def _nothing() -> None:
    """A reference to no logits."""


def _too_many(context: Any, batch: Any) -> int:
    """Used in place of `run` when there are more rows than the library takes at once."""
    return number("ES_NO_MEMORY")


def _held(kind: str, values: np.ndarray, dtype: type) -> Any:
    """A C array of `values`, which keeps them alive."""
    return contract().from_buffer(kind, np.ascontiguousarray(values, dtype))
