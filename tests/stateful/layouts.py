"""One block of logits in the layouts that engines use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine_sampler.arithmetic import LogitRows

from .workload import VOCAB, Random

Laid = tuple[Any, list[np.ndarray]]
"""The logits for a step, and the arrays that own their memory."""


def _plain(rows: np.ndarray, random: Random) -> Laid:
    return rows, [rows]


def _read_only(rows: np.ndarray, random: Random) -> Laid:
    rows.flags.writeable = False
    return rows, [rows]


def _padded(rows: np.ndarray, random: Random) -> Laid:
    """Wider than the vocabulary; the extra columns must not matter."""
    wide = np.full((len(rows), VOCAB + int(random.integers(1, 9))), np.nan, np.float32)
    wide[:, :VOCAB] = rows
    return wide, [wide]


def _strided(rows: np.ndarray, random: Random) -> Laid:
    """Every second row of a block, the last one first."""
    block = np.full((2 * len(rows), VOCAB + 2), np.inf, np.float32)
    view = block[::-2, 1:-1]
    view[:] = rows
    return view, [block]


def _fortran(rows: np.ndarray, random: Random) -> Laid:
    other = np.asfortranarray(rows)
    return other, [other]


def _half(rows: np.ndarray, random: Random) -> Laid:
    half = rows.astype(np.float16)
    return half, [half]


def _bfloat16(rows: np.ndarray, random: Random) -> Laid:
    bits = (rows.view(np.uint32) >> 16).astype(np.uint16)
    return LogitRows.from_bfloat16_bits(bits, VOCAB), [bits]


def _shared(rows: np.ndarray, random: Random) -> Laid:
    """All rows in the same memory, if they are equal."""
    if len(rows) and (rows == rows[0]).all():
        return np.broadcast_to(rows[0], rows.shape), [rows]
    return rows, [rows]


LAYOUTS: tuple[Callable[[np.ndarray, Random], Laid], ...] = (
    _plain, _plain, _shared, _read_only, _padded, _strided, _fortran, _half, _bfloat16,
)  # fmt: skip


class Untouched:
    """Rows float32 [n, vocab] in some layout; their bits must be the same afterwards."""

    def __init__(self, rows: np.ndarray, random: Random) -> None:
        self.logits, self._memory = LAYOUTS[random.integers(len(LAYOUTS))](rows, random)
        self._before = [array.tobytes() for array in self._memory]

    def expect_untouched(self) -> None:
        assert self._before == [array.tobytes() for array in self._memory], "the caller's logits changed"
