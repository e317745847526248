"""One call of a library's `run`, watched from all sides: what it returns, and what it reads and writes.

The batch is filled in here, field by field, rather than by the host's own calls, which repair what they can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...arithmetic import LogitRows, Logprobs
from ...backends.library.binding import logprobs_struct
from ...backends.library.header import contract, number
from ...backends.library.session import LibrarySession, Parts
from ...backends.library.tensor import prepare, type_of
from ...contract import LOGPROBS_KINDS, Group
from .memory import Memory
from .structs import TableCopy, larger
from .surroundings import Surroundings

_UNWRITTEN, _NO_NOTE = -99, 123.25
"""What outputs hold before the call."""

_GUARD = 16
"""Elements around every output that nobody may write."""


@dataclass(frozen=True)
class LibraryStep:
    """One call: groups, each with the parts of its program, on some logits.

    logprobs  kinds (uint8 [rows], as bits) and top_n (int64 [rows]) of the logprobs to report, by row.
    newer     whether structs and entries of arrays are longer than this header's, as a later host's are, and
              the logits begin at `byte_offset`.
    width     of the table of survivors that the programs, which have no selector, leave; 0: none is wanted.
    """

    session: LibrarySession
    entries: Sequence[tuple[Group, Parts]]
    logits: LogitRows
    bitmask: np.ndarray | None = None
    logprobs: tuple[np.ndarray, np.ndarray] | None = None
    newer: bool = False
    width: int = 0

    @property
    def slot_numbers(self) -> np.ndarray:
        """The slot of each entry, int64 [n]."""
        return np.concatenate([group.rows.slot_numbers for group, _ in self.entries])

    @property
    def index(self) -> np.ndarray:
        """The row of each entry, int64 [n]."""
        return np.concatenate([group.index for group, _ in self.entries]).astype(np.int64)

    def alone(self, i: int) -> LibraryStep:
        """Entry i as a batch of its own, on logits of one row."""
        which = int(np.searchsorted(np.cumsum([len(g.index) for g, _ in self.entries]), i, side="right"))
        group, parts = self.entries[which]
        member = i - sum(len(g.index) for g, _ in self.entries[:which])
        row = int(group.index[member])
        one = replace(group, index=np.zeros(1, np.int64), rows=group.rows.take(np.array([member])))
        logits = self.logits.take(slice(row, row + 1))
        bitmask = None if self.bitmask is None else self.bitmask[row : row + 1]
        return replace(self, entries=[(one, parts)], logits=logits, bitmask=bitmask, logprobs=None)


@dataclass
class Observed:
    """What a call did.

    code        what `run` returned.
    token_ids, notes  by row of the logits, as they were left.
    status      int32 [n], by entry.
    survivors   (ids, logits) of the rows whose processed logits were wanted, by row.
    left        (ids, logits) in the table of survivors of the rows that are ES_ROW_OK, by row.
    logprobs    the three tables, if any were asked for.
    breaches    what it did that a library must not do, in words.
    """

    code: int
    token_ids: np.ndarray
    notes: np.ndarray
    status: np.ndarray
    survivors: Mapping[int, tuple[np.ndarray, np.ndarray]]
    logprobs: Sequence[Logprobs | None]
    breaches: list[str] = field(default_factory=list)
    left: Mapping[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


def observe(step: LibraryStep, memory: Memory | None = None) -> Observed:
    """Make the call. `memory` holds its inputs: by default, ordinary memory that is compared afterwards."""
    return LibraryCall(step, memory or Memory()).make()


GAP = {np.dtype(np.float32): np.nan, np.dtype(np.float16): np.nan, np.dtype(np.uint16): 0x7FC0}
"""NaN, by the type in which rows lie in memory."""


class LibraryCall:
    """One call, filled in, made, and looked at."""

    def __init__(self, step: LibraryStep, memory: Memory) -> None:
        self._step, self._memory = step, memory
        self._held: list[Any] = []
        self._index = step.index
        self._n, self._size = len(self._index), step.session.vocab_size
        self._outputs: dict[str, np.ndarray] = {}
        self._struct, self._whole = larger("es_batch", step.newer)
        self._struct.n, self._struct.vocab_size = self._n, self._size

    def make(self) -> Observed:
        """Fill in the batch, call `run`, and look at everything."""
        self._add_inputs()
        self._add_outputs()
        self._note_batch()
        surroundings = Surroundings()
        self._memory.seal()
        try:
            code = self._step.session.step(self._step.session.context.pointer, self._struct)
        finally:
            self._memory.unseal()
        return self._looked_at(code, surroundings.changes())

    def _note_batch(self) -> None:
        """Remember the fields of the batch, which the library may only read."""
        self._before = self._fields()

    def _fields(self) -> bytes:
        """The batch without its outputs."""
        whole = bytearray(contract().buffer(self._whole))
        for name in ("faults", "ticket"):
            start = contract().offsetof("es_batch", name)
            whole[start : start + 8] = bytes(8)
        return bytes(whole)

    def _looked_at(self, code: int, breaches: Sequence[str]) -> Observed:
        """What the call did, which returned `code`; `breaches` have been found already."""
        observed = self._observed(code)
        observed.breaches += breaches
        observed.breaches += [f"it writes {name}" for name in self._memory.changed()]
        observed.breaches += self._written_beyond()
        if self._before != self._fields():
            observed.breaches.append("it writes a field of the batch other than faults")
        if code == number("ES_OK"):
            observed.breaches += self._wrong_outputs(observed)
        return observed

    # --- inputs ----------------------------------------------------------------------------------

    def _input(self, name: str, kind: str, values: Any, dtype: Any = None) -> Any:
        held = self._memory.put(name, np.ascontiguousarray(values, dtype))
        self._held.append(held)
        return contract().from_buffer(kind, held)

    def _add_inputs(self) -> None:
        step, struct = self._step, self._struct
        sizes = [len(group.index) for group, _ in step.entries]
        slots = step.slot_numbers
        programs = [step.session.compile(parts) for _, parts in step.entries]
        assert None not in programs, "compile takes a program, and then declines it"
        struct.rows = self._input("the row numbers", "int64_t[]", self._index)
        struct.slots = self._input("the slot numbers", "int32_t[]", slots, np.int32)
        struct.programs = self._input(
            "the program numbers", "uint32_t[]", np.repeat(np.array(programs, np.uint32), sizes)
        )
        if step.bitmask is not None:
            masked = np.repeat([group.masked for group, _ in step.entries], sizes)
            struct.masked = self._input("masked", "uint8_t[]", masked, np.uint8)
            struct.bitmask = self._input("the masks", "int32_t[]", step.bitmask, np.int32)
            struct.bitmask_stride = step.bitmask.shape[1]
        self._add_logits()
        self._add_table()

    def _add_logits(self) -> None:
        logits, tensor = self._step.logits, self._struct.logits
        self._shape, self._strides = prepare(tensor, *type_of(logits))
        array, itemsize = logits.array, logits.array.itemsize
        apart = array.strides[0] // itemsize if len(array) > 1 else array.shape[1]
        self._shape[0], self._shape[1] = array.shape
        self._strides[0] = apart
        first = max(0, -apart) * (len(array) - 1)
        flat = np.full(abs(apart) * (len(array) - 1) + array.shape[1], GAP[array.dtype], array.dtype)
        np.lib.stride_tricks.as_strided(flat[first:], array.shape, array.strides)[...] = array
        held = self._memory.put("the logits", flat)
        self._held.append(held)
        offset = 8 * itemsize if self._step.newer else 0
        address = held.__array_interface__["data"][0] + first * itemsize - offset
        tensor.data, tensor.byte_offset = contract().cast("void *", address), offset
        if self._step.newer and apart == array.shape[1]:
            tensor.strides = contract().NULL

    def _add_table(self) -> None:
        step = self._step
        self._table = TableCopy(step.session, step.entries[0][0].rows.slots, self._memory, step.newer)
        self._struct.table = self._table.pointer

    # --- outputs ---------------------------------------------------------------------------------

    def _output(self, name: str, kind: str, shape: int, unwritten: Any, dtype: Any) -> Any:
        whole = np.full(shape + 2 * _GUARD, unwritten, dtype)
        self._outputs[name] = whole
        return contract().from_buffer(kind, whole) + _GUARD

    def _result(self, name: str) -> np.ndarray:
        return self._outputs[name][_GUARD:-_GUARD]

    def _add_outputs(self) -> None:
        struct, rows = self._struct, len(self._step.logits)
        struct.token_ids = self._output("token_ids", "int64_t[]", rows, _UNWRITTEN, np.int64)
        struct.notes = self._output("notes", "double[]", rows, _NO_NOTE, np.float64)
        struct.status = self._output("status", "int32_t[]", self._n, _UNWRITTEN, np.int32)
        struct.faults = _UNWRITTEN
        wanted = np.repeat(
            [g.want_processed for g, _ in self._step.entries], [len(g.index) for g, _ in self._step.entries]
        )
        self._wanted = np.flatnonzero(wanted).tolist()
        if self._wanted:
            pointers = contract().new("float *[]", self._n)
            for i in self._wanted:
                pointers[i] = self._output(f"processed {i}", "float[]", self._size, _NO_NOTE, np.float32)
            struct.processed = pointers
            self._held.append(pointers)
        self._add_survivors()
        self._add_logprobs()

    def _add_survivors(self) -> None:
        width = self._step.width
        if not width:
            return
        table, whole = larger("es_survivors", self._step.newer)
        table.width = width
        n = self._n * width
        table.counts = self._output("the counts of survivors", "int64_t[]", self._n, _UNWRITTEN, np.int64)
        table.token_ids = self._output("the ids of survivors", "int64_t[]", n, _UNWRITTEN, np.int64)
        table.logits = self._output("the logits of survivors", "float[]", n, _NO_NOTE, np.float32)
        self._struct.survivors = table
        self._held += [table, whole]

    def _add_logprobs(self) -> None:
        step = self._step
        self._tables: list[Logprobs | None] = [None] * len(LOGPROBS_KINDS)
        if step.logprobs is None:
            return
        kinds, top_n = (values[self._index] for values in step.logprobs)
        width = int(np.where(top_n < 0, self._size, top_n).max(initial=0))
        rows = len(step.logits)
        self._tables = [
            Logprobs.empty(rows, width) if (kinds >> i & 1).any() else None
            for i in range(len(LOGPROBS_KINDS))
        ]
        self._held += logprobs_struct(self._tables)
        self._struct.logprobs = self._held[-2]
        self._struct.logprobs_kinds = self._input("the kinds of logprobs", "uint8_t[]", kinds, np.uint8)
        self._struct.top_n = self._input("top_n", "int64_t[]", top_n, np.int64)
        edits = [step.session.compile(tuple(group.edits.samplers)) for group, _ in step.entries]
        sizes = [len(group.index) for group, _ in step.entries]
        self._struct.edits = self._input("edits", "uint32_t[]", np.repeat(np.array(edits, np.uint32), sizes))

    # --- what it did -----------------------------------------------------------------------------

    def _observed(self, code: int) -> Observed:
        survivors = {}
        for i in self._wanted:
            values = self._result(f"processed {i}")
            alive = np.flatnonzero(values > -np.inf)
            survivors[int(self._index[i])] = alive, values[alive]
        return Observed(
            code,
            self._result("token_ids"),
            self._result("notes"),
            self._result("status"),
            survivors,
            self._tables,
            left=self._left() if self._step.width and code == number("ES_OK") else {},
        )

    def _left(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """What is in the table of survivors; rows whose count is impossible have what fits."""
        width, counts = self._step.width, self._result("the counts of survivors")
        ids, logits = (self._result(f"the {what} of survivors") for what in ("ids", "logits"))
        left = {}
        for i, row in enumerate(self._index.tolist()):
            if self._result("status")[i] == number("ES_ROW_OK"):
                place = slice(i * width, i * width + int(np.clip(counts[i], 0, width)))
                left[row] = ids[place].copy(), logits[place].copy()
        return left

    def _written_beyond(self) -> list[str]:
        """Outputs that are written before their beginning or after their end."""
        breaches = []
        for name, whole in self._outputs.items():
            around = np.concatenate([whole[:_GUARD], whole[-_GUARD:]])
            if (around != whole.dtype.type(_NO_NOTE if whole.dtype.kind == "f" else _UNWRITTEN)).any():
                breaches.append(f"it writes outside of {name}")
        return breaches

    def _wrong_outputs(self, observed: Observed) -> list[str]:
        breaches = []
        outside = np.setdiff1d(np.arange(len(self._step.logits)), self._index)
        if (observed.token_ids[outside] != _UNWRITTEN).any() or (observed.notes[outside] != _NO_NOTE).any():
            breaches.append("it writes a token or note of a row that is not in the batch")
        if (observed.status == _UNWRITTEN).any():
            breaches.append("it leaves out a status")
        elif ((observed.status < 0) | (observed.status > number("ES_ROW_DECLINED"))).any():
            breaches.append("it gives a status that the header does not know")
        faults = int((observed.status != 0).sum())
        if self._struct.faults != faults:
            breaches.append(f"it counts {self._struct.faults} faults, {faults} rows have one")
        for table in filter(None, observed.logprobs):
            if (table.token_ids[outside] != -1).any():
                breaches.append("it writes logprobs of a row that is not in the batch")
        if self._step.width:
            counts = self._result("the counts of survivors")[observed.status == number("ES_ROW_OK")]
            if ((counts < 1) | (counts > self._step.width)).any():
                breaches.append(
                    f"it counts {counts.tolist()} survivors, where there is room for {self._step.width}"
                )
        return breaches
