"""Data of both modes of ATB's operator: rows of 16-bit probabilities, and the results of draws."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import IntEnum
from functools import lru_cache

import numpy as np

from engine_sampler.arithmetic import LN_2, log2_64

MASS_BITS = 40
_MINUS_ZERO = 0x8000


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


class DrawingMethod(IntEnum):
    """How a token is drawn: the values of `es_probabilities_draw` in the C header."""

    BY_WEIGHT_OF_IDS = 0
    """By the contract's weights in order of ids, from uint64 numbers."""
    BY_WEIGHT_OF_RANKS = 1
    """The same in (probability desc, id asc) order."""
    RACE = 2
    """By the noise at the ids."""
    ROUNDED_SHARE = 3
    """Observed mode, from float32 numbers in [0, 1]."""
    ROUNDED_RACE = 4
    """Observed mode, by the noise at the ranks."""


@dataclass(frozen=True)
class Decision:
    """What decides the rows of a call.

    way         how a token is drawn.
    numbers     random numbers [B], uint64 or float32 as `way` takes them; None for a race.
    keeps_ties  whether top-k also keeps all tokens that are as likely as the last that it keeps.
    lists       how many of the likeliest kept tokens to report.
    """

    way: DrawingMethod
    numbers: np.ndarray | None
    keeps_ties: bool
    lists: int

    def at(self, row: int) -> Decision:
        """What decides one row."""
        return replace(self, numbers=None if self.numbers is None else self.numbers[row : row + 1])

    @property
    def is_rounded(self) -> bool:
        return self.way in (DrawingMethod.ROUNDED_SHARE, DrawingMethod.ROUNDED_RACE)


@dataclass(frozen=True)
class OperatorInputs:
    """The operator's checked inputs.

    bits      uint16 [B, V], the bits of the probabilities; from +0 to 1 they are ordered as the numbers are.
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
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{n: a[rows] for n, a in given.items() if isinstance(a, np.ndarray)})

    def without_signed_zeros(self) -> OperatorInputs:
        """The same with +0 in place of −0 among the probabilities."""
        if not (self.bits == _MINUS_ZERO).any():
            return self
        return replace(self, bits=np.where(self.bits == _MINUS_ZERO, np.uint16(0), self.bits))

    def fault_of(self, row: int) -> str | None:
        """Why a row cannot be drawn from; None if its numbers are allowed."""
        if self.exp is not None:
            noise = self.table.values[self.exp[row]]
            if len(wrong := noise[~((noise >= 0) & (noise < np.inf))]):
                return f"exp has {wrong[0]}; allowed are finite numbers of at least 0"
        values = self.table.values[self.bits[row]]
        if len(wrong := values[~((values >= 0) & (values <= 1))]):
            return f"row {row} of probs has {wrong[0]}; allowed are numbers from 0 to 1"
        return (
            None
            if (values > 0).any()
            else (f"row {row} of probs is all 0; allowed are rows with a probability above 0")
        )

    def noise(self, ids: np.ndarray) -> np.ndarray:
        """The noise of each row at `ids` [B, M], float32, without −0."""
        assert self.exp is not None
        return np.abs(self.table.values[np.take_along_axis(self.exp, ids, axis=1)])


def needed_masses(topp: np.ndarray) -> np.ndarray:
    """int64, what the masses of the kept tokens must add up to for each `topp` float64; −1 keeps all."""
    return np.where(topp < 1, np.ceil(topp * 2.0**MASS_BITS), -1).astype(np.int64)


@dataclass(frozen=True)
class Draws:
    """The results of the rows.

    tokens  int64 [B], the drawn ids; −1 for a row without one.
    shares  float32 [B, lists], the likeliest probabilities of the tokens they were drawn from, then 0.
    masses  float64 [B], what logprobs divide these by.
    """

    tokens: np.ndarray
    shares: np.ndarray
    masses: np.ndarray

    def at(self, rows: np.ndarray) -> Draws:
        """The results of the rows for which the bool [B] `rows` is True."""
        return Draws(self.tokens[rows], self.shares[rows], self.masses[rows])


def race(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """int64 [B], the first column at which value / time is greatest, in float64, for `values` [B, M]; a time
    of 0 beats every other, and a value of 0 never wins against one above it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = values.astype(np.float64) / times
    return np.where(values > 0, ratios, -1.0).argmax(axis=1)
