"""Drawn tokens join the histories of their requests: in one call of the packaged library, or in NumPy."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..base.packaged import load_histories
from ..contract import SlotTable
from .draws import DrawnTokens
from .history import ONE, TokenPool

_POINTERS = {
    "tokens": "int64_t[]",
    "notes": "double[]",
    "offsets": "int64_t[]",
    "lengths": "int64_t[]",
    "positions": "int64_t[]",
    "limits": "int64_t[]",
    "always": "uint8_t[]",
    "watched": "uint8_t[]",
}
"""What the library writes and reads, by the names of a table's attributes."""


class HistoryTable(SlotTable, Protocol):
    """The columns of `Slots` that a token changes, or that tell what must be checked after it."""

    pool: TokenPool
    limits: np.ndarray
    always: np.ndarray
    watched: np.ndarray


class Appending(Protocol):
    """A way to add tokens to the histories of a table."""

    def append(self, table: HistoryTable, draws: DrawnTokens) -> int:
        """Add each token to the history of its slot, and set `draws.due`. Returns how many requests must be
        checked; or −1, with nothing done, if a token is not in the vocabulary."""


class AppendingInC:
    """One call, within which no signal is handled."""

    def __init__(self, library: Any, ffi: Any) -> None:
        self._append = library.es_histories_append
        self._from_buffer = ffi.from_buffer
        self._struct = ffi.new("es_histories *")
        self._arrays: Any = None
        """Those of the pool: whenever any array of the table is replaced, they are, too."""

    def append(self, table: HistoryTable, draws: DrawnTokens) -> int:
        table.pool.make_room()
        if table.pool.arrays is not self._arrays:
            self._point_to(table)
        if draws.addresses is None:
            draws.addresses = self._addresses_of(draws)
        count: int = self._append(self._struct, draws.n, *draws.addresses)
        return count

    def _point_to(self, table: HistoryTable) -> None:
        held = []
        for name, kind in _POINTERS.items():
            held.append(self._from_buffer(kind, getattr(table, name)))
            setattr(self._struct, name, held[-1])
        self._struct.vocab_size = len(table.watched)
        self._held, self._arrays = held, table.pool.arrays

    def _addresses_of(self, draws: DrawnTokens) -> tuple[Any, ...]:
        from_buffer = self._from_buffer
        return (
            from_buffer("int64_t[]", draws.slots),
            from_buffer("int64_t[]", draws.token_ids),
            from_buffer("double[]", draws.notes),
            from_buffer("uint8_t[]", draws.due),
        )


class AppendingInNumpy:
    """The same where there is no library."""

    def append(self, table: HistoryTable, draws: DrawnTokens) -> int:
        slots, token_ids = draws.slots, draws.token_ids
        if (token_ids.view(np.uint64) >= len(table.watched)).any():  # −1 is the greatest
            return -1
        table.positions[slots] = table.positions[slots] + ONE
        table.pool.extend(slots, token_ids, draws.notes)
        np.greater_equal(table.pool.lengths[slots], table.limits[slots], out=draws.due)
        draws.due |= table.always[slots]
        draws.due |= table.watched[token_ids]
        return int(np.count_nonzero(draws.due))


def new_appending() -> Appending:
    """The faster way that this machine has."""
    loaded = load_histories()
    return AppendingInNumpy() if loaded is None else AppendingInC(*loaded)
