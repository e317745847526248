"""Draws for the rows of a call: in one call of the packaged library, or row by row in NumPy."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from engine_sampler.for_bridges import load_functions

from . import documented, observed
from .rows import Decision, DrawingMethod, Draws, OperatorInputs, needed_masses

HEADER = "engine_sampler_probabilities.h"


class Drawing(Protocol):
    """A way to draw tokens."""

    def draw(self, inputs: OperatorInputs, rows: np.ndarray, decision: Decision) -> Draws:
        """The draws of `rows` int64 [n] of `inputs`; `decision` has numbers for these rows only. The token is
        −1 for a row whose numbers `inputs.fault_of` refuses."""


class DrawingInC:
    """Nothing is sorted; memory for one row's counts."""

    def __init__(self, library: Any, ffi: Any) -> None:
        self._sample = library.es_probabilities_sample
        self._ffi = ffi

    def draw(self, inputs: OperatorInputs, rows: np.ndarray, decision: Decision) -> Draws:
        n, lists = len(rows), decision.lists
        tokens, masses = np.empty(n, np.int64), np.empty(n, np.float64)
        leading = np.empty((n, lists), np.uint16)
        buffer = self._ffi.from_buffer
        given = self._struct(inputs, rows, decision)
        status = self._sample(
            given[0],
            n,
            buffer("int64_t[]", rows),
            buffer("int64_t[]", tokens),
            buffer("double[]", masses),
            buffer("uint16_t[]", leading),
        )
        if status:
            raise MemoryError(f"no memory to draw from rows of {inputs.bits.shape[1]} probabilities")
        return Draws(tokens, inputs.table.values[leading], masses)

    def _struct(self, inputs: OperatorInputs, rows: np.ndarray, decision: Decision) -> tuple[Any, list[Any]]:
        """The struct, and what must live as long as it."""
        table, struct = inputs.table, self._ffi.new("es_probabilities *")
        bits, struct.bits, struct.stride = self._table(inputs.bits)
        held: list[Any] = [bits]
        if inputs.exp is not None:
            noise, struct.noise, struct.noise_stride = self._table(inputs.exp)
            held.append(noise)
        struct.vocab_size = bits.shape[1]
        struct.bfloat16, struct.draw = inputs.bfloat16, decision.way
        struct.keeps_ties, struct.lists = decision.keeps_ties, decision.lists
        arrays = {
            "values": ("float[]", table.values),
            "logits": ("float[]", table.logits),
            "masses": ("int64_t[]", table.masses),
            "topk": ("int64_t[]", inputs.topk[rows]),
            "needed": ("int64_t[]", needed_masses(inputs.topp[rows])),
            "topp": ("double[]", inputs.topp[rows]),
        }
        if decision.numbers is not None:
            shares = decision.way == DrawingMethod.ROUNDED_SHARE
            name, kind = ("shares", "float[]") if shares else ("numbers", "uint64_t[]")
            arrays[name] = (kind, decision.numbers)
        for name, (kind, array) in arrays.items():
            held.append(self._ffi.from_buffer(kind, array))
            setattr(struct, name, held[-1])
        return struct, held

    def _table(self, table: np.ndarray) -> tuple[np.ndarray, Any, int]:
        """uint16 `table` [rows, vocab] with adjacent columns, its address, and the distance of its rows."""
        if table.strides[1] != table.itemsize or table.strides[0] % table.itemsize:
            table = np.ascontiguousarray(table)
        address = self._ffi.cast("uint16_t *", table.ctypes.data)
        return table, address, table.strides[0] // table.itemsize


class DrawingInNumpy:
    """The same where there is no library; memory for one row."""

    def draw(self, inputs: OperatorInputs, rows: np.ndarray, decision: Decision) -> Draws:
        draw = observed.draw if decision.is_rounded else documented.draw
        tokens, masses = np.empty(len(rows), np.int64), np.empty(len(rows), np.float64)
        shares = np.zeros((len(rows), decision.lists), np.float32)
        for i in range(len(rows)):
            row = inputs.at(rows[i : i + 1]).without_signed_zeros()
            if row.fault_of(0) is not None:
                tokens[i], masses[i] = -1, 0
                continue
            drawn = draw(row, decision.at(i))
            tokens[i], masses[i] = drawn.tokens[0], drawn.masses[0]
            listed = drawn.shares[0, : decision.lists]
            shares[i, : len(listed)] = listed
        return Draws(tokens, shares, masses)


def new_drawing() -> Drawing:
    """The faster way that this machine has."""
    loaded = load_functions(HEADER, "es_probabilities_sample")
    return DrawingInNumpy() if loaded is None else DrawingInC(*loaded)
