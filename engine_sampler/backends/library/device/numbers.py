"""Random numbers of the arithmetic contract for operators that are given theirs (`es_random`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....arithmetic import SELECTOR_STREAM, DrawsAhead, philox4x32
from ....contract import SlotTable
from ..header import contract, named

_LOW = 0xFFFFFFFF


class RandomNumbers:
    """The numbers of the rows of a call, computed anew for every step.

    numbers  [n], or [n, width] for exponential ones; array: the same as a C array, which stays where it is.
    """

    def __init__(self, kind: int, slots: SlotTable, slot_numbers: np.ndarray, width: int) -> None:
        ffi, n = contract(), len(slot_numbers)
        self._kind, self._width = named("es_random", kind), width
        self._slots, self._slot_numbers = slots, slot_numbers
        self._ahead = DrawsAhead(SELECTOR_STREAM, 0)
        if self._kind == "RANDOM_BITS":
            self.numbers = np.zeros(n, np.uint64)
            self.array: Any = ffi.from_buffer("uint64_t[]", self.numbers)
        elif self._kind == "RANDOM_UNIFORM":
            self.numbers = np.zeros(n, np.float32)
            self.array = ffi.from_buffer("float[]", self.numbers)
        else:
            self.numbers = np.zeros((n, width), np.float32)
            self.array = ffi.cast(f"float(*)[{width}]", ffi.from_buffer(self.numbers))

    def draw(self) -> None:
        """Compute the numbers for the tokens that the requests draw next."""
        seeds, positions = (a[self._slot_numbers] for a in (self._slots.seeds, self._slots.positions))
        if self._kind == "RANDOM_EXPONENTIAL":
            for i, (seed, position) in enumerate(zip(seeds.tolist(), positions.tolist(), strict=True)):
                bits = _bits_in_order(seed, position, self._width)
                self.numbers[i] = -np.log(uniforms(bits))
            return
        bits = self._ahead.at(seeds, positions)
        self.numbers[:] = bits if self._kind == "RANDOM_BITS" else uniforms(bits)


def uniforms(bits: np.ndarray) -> np.ndarray:
    """((bits >> 41) + 0.5)·2^−23 as float64: numbers between 0 and 1 that float32 holds exactly."""
    numbers: np.ndarray = ((bits >> np.uint64(41)) + 0.5) * 2.0**-23
    return numbers


def _bits_in_order(seed: int, position: int, width: int) -> np.ndarray:
    """uint64 [width]: `draw64` number t of a request, for t from 0 on."""
    low = np.full(width, position & _LOW, np.uint64)
    counter = np.arange(width, dtype=np.uint64), SELECTOR_STREAM, low, position >> 32
    x0, x1, _, _ = philox4x32(counter, (seed & _LOW, seed >> 32))
    bits: np.ndarray = x0 | x1 << np.uint64(32)
    return bits
