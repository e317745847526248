"""Call the C function of a sampler as a compiled backend does, one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arithmetic import draw64
from ..backends.library.header import contract, sized
from ..backends.library.request_table import RequestTable
from ..contract import Sampler, SlotTable


class RowFunction:
    """The `row_function` of `sampler` for the requests of `slots`."""

    def __init__(self, sampler: Sampler, slots: SlotTable) -> None:
        ffi = contract()
        assert sampler.row_function is not None, sampler.name
        self._sampler = sampler
        self._slots = slots
        self._table = RequestTable(slots)
        self._cells = self._table.cells(sampler)
        self._function = ffi.cast("es_row_function", ffi.cast("uintptr_t", sampler.row_function))
        self._draw = ffi.callback("uint64_t(const es_row *, uint32_t)", _draw)

    def run(self, logits: np.ndarray, ids: np.ndarray | None, slot: int) -> bool:
        """Run it on one row, float32 [n], in place; `ids` are the tokens, None for all. False if it fails."""
        ffi, slots, width = contract(), self._slots, self._cells.width
        tokens = slots.entries[slot].history.token_ids
        row = sized(
            "es_row",
            stream=self._sampler.stream,
            slot=slot,
            vocab_size=slots.vocabulary.size,
            seed=int(slots.seeds[slot]),
            position=int(slots.positions[slot]),
            token_ids=ffi.from_buffer("int64_t[]", tokens) if len(tokens) else ffi.NULL,
            length=len(tokens),
            prompt_length=int(slots.prompt_lengths[slot]),
            values=self._cells.values[0] + slot * width,
            draw=self._draw,
        )
        columns = None if ids is None else np.ascontiguousarray(ids, np.int32)
        where: Any = ffi.NULL if columns is None else ffi.from_buffer("int32_t[]", columns)
        state = self._cells.states[0][slot]
        return int(self._function(row, ffi.from_buffer("float[]", logits), where, len(logits), state)) == 0


def bits_of_row(seed: int, position: int, stream: int, indices: Sequence[int]) -> list[int]:
    """The 64 random bits of each of `indices` for one row."""
    seeds, positions = np.array([seed], np.uint64), np.array([position], np.int64)
    return [int(draw64(seeds, positions, stream, index)[0]) for index in indices]


def _draw(row: Any, index: int) -> int:
    return bits_of_row(row.seed, row.position, row.stream, [index])[0]
