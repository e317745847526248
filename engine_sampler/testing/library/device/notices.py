"""Notices of what has happened to requests, told in all the ways that the header allows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....backends.library.header import contract, number
from ....backends.library.session import LibrarySession
from ....contract import SlotTable
from ..memory import Memory
from ..settings import Random
from ..structs import TableCopy, larger


class Notices:
    """What a context has been told of its slots. `tell` brings it up to date."""

    def __init__(self, session: LibrarySession, slots: SlotTable) -> None:
        self._session, self._slots = session, slots
        self._update = session.context.library.function("update")
        self._known: dict[int, tuple[int, list[int]]] = {}
        """Epoch and tokens of the requests that it knows, by slot."""
        self._filled: set[int] = set()
        self._kept: Any = None
        """What the last call was given, overwritten since: a library that still reads it reads nonsense."""
        slots.observers.add(self)

    def filled(self, slot: int) -> None:
        """The slot has been given to another request."""
        self._filled.add(slot)

    def tell(self, random: Random | None = None) -> None:
        """Tell all changes; at random in several calls, some of them again, and with fewer tokens said to be
        as they were than there are."""
        if self._update is None:
            return
        entries = self._changes(random)
        while entries:
            n = (
                len(entries)
                if random is None or random.random() < 0.6
                else int(random.integers(1, len(entries) + 1))
            )
            self._call(entries[:n], newer=random is not None and random.random() < 0.3)
            entries = entries[n:]

    def _changes(self, random: Random | None) -> list[tuple[int, int, int]]:
        """(slot, kind, before) of each slot that has changed."""
        changes = []
        for slot, entry in enumerate(self._slots.entries):
            if entry is None:
                if slot in self._known:
                    del self._known[slot]
                    changes.append((slot, number("ES_LEFT"), 0))
                continue
            epoch, tokens = int(self._slots.epochs[slot]), entry.history.token_ids.tolist()
            change = self._change(slot, epoch, tokens, random)
            if change is not None:
                changes.append((slot, *change))
            self._known[slot] = epoch, tokens
        self._filled.clear()
        if random is not None:
            random.shuffle(changes)
        return changes

    def _change(
        self, slot: int, epoch: int, tokens: list[int], random: Random | None
    ) -> tuple[int, int] | None:
        again = random is not None and random.random() < 0.05
        if slot in self._filled or slot not in self._known or again:
            return number("ES_JOINED"), 0
        before, known = self._known[slot]
        if epoch == before:
            return (number("ES_GREW"), len(known)) if len(tokens) > len(known) else None
        same = next(
            (i for i, pair in enumerate(zip(known, tokens, strict=False)) if pair[0] != pair[1]), None
        )
        most = min(len(known), len(tokens)) if same is None else same
        if random is None or random.random() < 0.5:
            return number("ES_ROLLED_BACK"), 0
        return number("ES_ROLLED_BACK"), int(random.integers(0, most + 1))

    def _call(self, entries: list[tuple[int, int, int]], *, newer: bool) -> None:
        memory = Memory()
        columns = np.array(entries, np.int64).T
        live = [slot for slot, kind, _ in entries if kind != number("ES_LEFT")]
        table = TableCopy(self._session, self._slots, memory, newer, whole=live)
        struct, whole = larger("es_changes", newer)
        struct.n, struct.table = len(entries), table.pointer
        struct.vocab_size = self._slots.vocabulary.size
        held: list[Any] = []
        for name, values, kind, dtype in (
            ("slots", columns[0], "int32_t[]", np.int32),
            ("kinds", columns[1], "int32_t[]", np.int32),
            ("befores", columns[2], "int64_t[]", np.int64),
        ):
            held.append(memory.put(f"the {name} of changes", values.astype(dtype)))
            setattr(struct, name, contract().from_buffer(kind, held[-1]))
        before = bytes(contract().buffer(whole))
        context = self._session.context
        context.check("update", self._update(context.pointer, struct))
        changed = memory.changed()
        if changed or before != bytes(contract().buffer(whole)):
            raise context.library.error(f"update writes {changed[0] if changed else 'its argument'}")
        table.spoil()
        for array in held:
            array[:] = 0
        self._kept = memory, table, struct, whole, held
