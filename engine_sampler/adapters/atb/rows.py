"""Data of both modes of ATB's operator: rows of 16-bit probabilities, and the results of draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ...arithmetic import LN_2, descending, log2_64

MASS_BITS = 40


@dataclass(frozen=True)
class HalfFloatTable:
    """Values of all 16-bit floats, indexed by their bits: [65536] each.

    values   the number itself, float32, exact.
    logits   float32(ln value); −inf for 0, NaN for numbers that are not a probability.
    masses   rint(value·2^40) as int64, whose sums are exact; 0 for numbers that are not a probability.
    """

    values: np.ndarray
    logits: np.ndarray
    masses: np.ndarray


@lru_cache
def half_float_table(bfloat16: bool) -> HalfFloatTable:
    """The table of bfloat16 or of float16."""
    bits = np.arange(1 << 16, dtype=np.uint32)
    halves = (bits << 16).view(np.float32) if bfloat16 else bits.astype(np.uint16).view(np.float16)
    values = halves.astype(np.float32)
    allowed = (values >= 0) & (values <= 1)
    positive = np.where(allowed & (values > 0), values, 1.0).astype(np.float64)
    logits = np.where(values == 0, -np.inf, log2_64(positive) * LN_2)
    masses = np.where(allowed, np.nan_to_num(values), 0.0).astype(np.float64) * 2.0**MASS_BITS
    return HalfFloatTable(
        values, np.where(allowed, logits, np.nan).astype(np.float32), np.rint(masses).astype(np.int64)
    )


def bits_of(array: np.ndarray, bfloat16: bool) -> np.ndarray:
    """The bits of 16-bit floats, uint16; bfloat16 values are passed as float32 of the same value."""
    if bfloat16:
        return (array.view(np.uint32) >> 16).astype(np.uint16)
    return array.view(np.uint16)


@dataclass(frozen=True)
class OperatorInputs:
    """The operator's checked inputs.

    bits      uint16 [B, V], the bits of the probabilities.
    bfloat16  whether they are bfloat16, else float16.
    topk      int64 [B].
    topp      float64 [B].
    exp       float32 [B, V] for the exponential types, else None.
    rand      float32 [B] for the type that takes it, else None.
    """

    bits: np.ndarray
    bfloat16: bool
    topk: np.ndarray
    topp: np.ndarray
    exp: np.ndarray | None
    rand: np.ndarray | None

    @property
    def table(self) -> HalfFloatTable:
        return half_float_table(self.bfloat16)

    def values(self, i: int) -> np.ndarray:
        """The probabilities of row i, float32 [V]."""
        return self.table.values[self.bits[i]]

    def logits(self) -> np.ndarray:
        """ln of the probabilities, float32 [B, V]: −inf for 0, NaN for numbers that are not a probability."""
        out = np.empty(self.bits.shape, np.float32)
        for row, bits in zip(out, self.bits, strict=True):
            np.take(self.table.logits, bits, out=row)
        return out


@dataclass(frozen=True)
class DrawResult:
    """The result of one row.

    token       the drawn id.
    candidates  the tokens it was drawn from in (probability desc, id asc) order, if the type may return
                logprobs.
    mass        the divisor of their probabilities in logprobs.
    """

    token: int
    candidates: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    mass: float = 1.0


def in_order(logits: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`columns` of one row in (logit desc, id asc) order."""
    return columns[descending(logits[columns])]


def race(values: np.ndarray, times: np.ndarray) -> int:
    """The first index at which value / time is greatest, in float64; a time of 0 beats every other."""
    with np.errstate(divide="ignore"):
        return int((values.astype(np.float64) / times).argmax())
