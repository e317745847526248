"""Notices of what has happened to requests, for libraries that keep counts and histories near the logits."""

from __future__ import annotations

import weakref

import numpy as np

from ....contract import SlotTable
from ..binding import Context
from ..header import contract, number, sized
from ..request_table import RequestTable


class Changes:
    """Tells a context what has happened to the slots since it was told last (`es_changes`)."""

    def __init__(self, context: Context, slots: SlotTable, table: RequestTable) -> None:
        self._context = context
        self._update = context.library.function("update")
        self._table = table
        self._slots = weakref.ref(slots)
        self._epochs = np.zeros(0, np.uint64)
        self._lengths = np.zeros(0, np.int64)
        self._joined: set[int] = set()
        if self._update is not None:
            self._joined.update(i for i, entry in enumerate(slots.entries) if entry is not None)
            slots.observers.add(self)

    def filled(self, slot: int) -> None:
        """The slot has been given to another request."""
        self._joined.add(slot)

    def tell(self) -> None:
        """Tell the library of all changes; if it does not take them, they are told again. Raises
        `Refusal`."""
        slots = self._slots()
        if self._update is None or slots is None:
            return
        self._grow(len(slots.entries))
        changed = (slots.epochs != self._epochs) | (slots.lengths != self._lengths)
        changed[[*self._joined]] = True
        which = np.flatnonzero(changed)
        if not len(which):
            return
        entries = [self._entry(slots, int(slot)) for slot in which]
        kinds, befores = (np.array(column) for column in zip(*entries, strict=True))
        ffi = contract()
        struct = sized(
            "es_changes",
            n=len(which),
            table=self._table.pointer,
            vocab_size=slots.vocabulary.size,
            slots=(held_slots := ffi.from_buffer("int32_t[]", which.astype(np.int32))),
            kinds=(held_kinds := ffi.from_buffer("int32_t[]", kinds.astype(np.int32))),
            befores=(held_befores := ffi.from_buffer("int64_t[]", befores.astype(np.int64))),
        )
        self._context.check("update", self._update(self._context.pointer, struct))
        del held_slots, held_kinds, held_befores
        self._epochs[which], self._lengths[which] = slots.epochs[which], slots.lengths[which]
        self._joined.clear()

    def _entry(self, slots: SlotTable, slot: int) -> tuple[int, int]:
        """The kind of a change, and how many tokens are as they were."""
        if slots.entries[slot] is None:
            return number("ES_LEFT"), 0
        if slot in self._joined:
            return number("ES_JOINED"), 0
        if slots.epochs[slot] != self._epochs[slot]:  # from where on, nobody knows
            return number("ES_ROLLED_BACK"), 0
        return number("ES_GREW"), int(self._lengths[slot])

    def _grow(self, capacity: int) -> None:
        more = capacity - len(self._epochs)
        if more > 0:
            self._epochs = np.concatenate([self._epochs, np.zeros(more, np.uint64)])
            self._lengths = np.concatenate([self._lengths, np.zeros(more, np.int64)])
