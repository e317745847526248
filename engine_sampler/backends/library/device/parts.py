"""What the steps of one `SlotTable` on one device share: its session, plans, memory, and what it is told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ....arithmetic import LogitRows
from ....contract import Batch, PreparedMasks
from ..header import contract, number, sized
from ..session import LibrarySession
from .arrays import DeviceArray
from .changes import Changes
from .logits import DeviceTensor, device_tensor
from .memory import Allocate, DeviceMemory, MemoryBlock
from .plans import Plans


class StagedMasks(NamedTuple):
    """Masks on their way to a device, as `Backend.prepare_masks` returns them."""

    owner: DeviceParts
    number: int


class DeviceParts:
    """A library's context for one `SlotTable` on one device, and all that belongs to it.

    session     the context and its programs.
    open_calls  those for which the device may still work.
    """

    def __init__(self, session: LibrarySession, slots: Any, allocate: Allocate | None) -> None:
        context = session.context
        self.session = session
        self.open_calls: set[Any] = set()
        self.vocab_size = session.vocab_size
        self.memory = DeviceMemory(context, allocate)
        self.plans = Plans(context, self.memory, session.vocab_size)
        self._changes = Changes(context, slots, session.table)
        self._pointer = context.pointer
        functions = context.library.function
        self._run, self._wait, self._poll = map(functions, ("run", "wait", "poll"))
        self._stage_masks, self._read_rows = functions("stage_masks"), functions("read_rows")

    def begin_step(self, batch: Batch) -> None:
        """Before the calls of a step: end what an interrupted one has left, give back memory, and tell the
        library what has changed."""
        self.session.context.enter()
        if self.open_calls:
            for call in list(self.open_calls):
                call.settle_down()
            batch.token_ids[:], batch.notes[:] = -1, np.nan  # where those may have written
        if batch.logits.remote.reader is None:
            batch.logits.remote.reader = self.reader(batch.logits)
        self.memory.clean_up()
        self._changes.tell()

    def start(self, step: Callable[[Any, Any], int], struct: Any) -> int:
        """`run`, without waiting for it; `step` in its place where that does more than call it."""
        plain = step is self.session.step and not self.session.watched
        return int((self._run if plain else step)(self._pointer, struct))

    def wait(self, ticket: int) -> int:
        """Wait for a ticket: the code of its step."""
        return int(self._wait(self._pointer, ticket)) if self._wait else number("ES_INVALID")

    def poll(self, ticket: int) -> int:
        """The code of a ticket's step if it is done, else ES_BUSY."""
        return number("ES_BUSY") if self._poll is None else int(self._poll(self._pointer, ticket))

    # --- tokens, masks and rows --------------------------------------------------------------------

    def new_tokens(self, like: Any, n: int) -> tuple[Any, MemoryBlock]:
        """(array, its memory) for n tokens on the device: a tensor of torch if `like` is one."""
        if hasattr(like, "new_empty") and hasattr(like, "data_ptr"):
            tensor = like.new_empty(n, dtype=sys.modules["torch"].int64)
            return tensor, MemoryBlock(contract().cast("void *", tensor.data_ptr()), tensor)
        block = self.memory.device(8 * n)
        return DeviceArray(block, (n,), self.session.context.device), block

    def stage_masks(self, bitmask: np.ndarray, rows: Sequence[int]) -> StagedMasks | None:
        """Start to copy masks, int32 [requests, words], to the device; None if the library does not do
        that."""
        if self._stage_masks is None:
            return None
        ffi = contract()
        words, which = np.ascontiguousarray(bitmask, np.int32), np.array(rows, np.int64)
        struct = sized(
            "es_masks",
            n=len(which),
            rows=(held_rows := ffi.from_buffer("int64_t[]", which)),
            bitmask=(held_words := ffi.from_buffer("int32_t[]", words)),
            bitmask_stride=words.shape[1],
            total=len(words),
            vocab_size=self.vocab_size,
        )
        out = ffi.new("uint64_t *")
        self.session.context.enter()
        self.session.context.check("stage_masks", self._stage_masks(self._pointer, struct, out))
        del held_rows, held_words
        return StagedMasks(self, int(out[0])) if out[0] else None

    def staged(self, prepared: PreparedMasks | None) -> int | None:
        """The number of prepared masks, if they have been given to this context."""
        handle = None if prepared is None else prepared.handle
        return handle.number if isinstance(handle, StagedMasks) and handle.owner is self else None

    def reader(self, logits: LogitRows) -> Callable[[Sequence[int]], np.ndarray | None] | None:
        """What copies rows of `logits` to the host; None if the library does not."""
        found = device_tensor(logits)
        if found is None or self._read_rows is None:
            return None
        return partial(self._copies, found, logits.width)

    def _copies(self, tensor: DeviceTensor, width: int, rows: Sequence[int]) -> np.ndarray | None:
        """Rows of logits, [n, width]; None if the library cannot read them now."""
        which = np.array(rows, np.int64)
        copies: np.ndarray = np.empty((len(which), width), _dtype_of(tensor))
        ffi = contract()
        self.session.context.enter()
        code = self._read_rows(
            self._pointer,
            tensor.pointer,
            ffi.from_buffer("int64_t[]", which),
            len(which),
            ffi.cast("void *", tensor.stream),
            ffi.from_buffer(copies),
        )
        return copies if code == number("ES_OK") else None


def _dtype_of(tensor: DeviceTensor) -> type:
    """NumPy's type for the elements of logits; bfloat16 as uint16 that holds its bits."""
    if tensor.layout.code == 4:
        return np.uint16
    return np.float32 if tensor.layout.bits == 32 else np.float16
