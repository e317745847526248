"""Data of both modes of ATB's operator: rows of 16-bit probabilities, and the results of draws."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np

from ...arithmetic import LN_2, log2_64

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


@dataclass(frozen=True)
class OperatorInputs:
    """The operator's checked inputs.

    bits      uint16 [B, V], the bits of the probabilities, from +0 to 1: they are ordered as the numbers are.
    bfloat16  whether they are bfloat16, else float16.
    topk      int64 [B].
    topp      float64 [B].
    exp       uint16 [B, V], the bits of the noise for the exponential types, else None.
    rand      float32 [B] for the type that takes it, else None.
    """

    bits: np.ndarray
    bfloat16: bool
    topk: np.ndarray
    topp: np.ndarray
    exp: np.ndarray | None
    rand: np.ndarray | None

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def table(self) -> HalfFloatTable:
        return half_float_table(self.bfloat16)

    def at(self, rows: np.ndarray) -> OperatorInputs:
        """The inputs of some rows only."""
        if len(rows) == len(self):
            return self
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{n: a[rows] for n, a in given.items() if isinstance(a, np.ndarray)})

    def noise(self, ids: np.ndarray) -> np.ndarray:
        """The noise of each row at `ids` [B, M], float32."""
        assert self.exp is not None
        return self.table.values[np.take_along_axis(self.exp, ids, axis=1)]


@dataclass(frozen=True)
class Draws:
    """The results of the rows.

    tokens  int64 [B], the drawn ids.
    shares  float32 [B, M], the probabilities of the tokens they were drawn from, greatest first, then 0.
    masses  float64 [B], what logprobs divide these by.
    """

    tokens: np.ndarray
    shares: np.ndarray
    masses: np.ndarray


def race(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """int64 [B], the first column at which value / time is greatest, in float64, for `values` [B, M]; a time
    of 0 beats every other, and a value of 0 never wins against one above it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = values.astype(np.float64) / times
    return np.where(values > 0, ratios, -1.0).argmax(axis=1)
