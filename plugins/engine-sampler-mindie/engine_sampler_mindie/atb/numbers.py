"""The random numbers that decide the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine_sampler.arithmetic import SELECTOR_STREAM, draw64

from .glibc_rand import RAND_MAX, first_rands, glibc_rand


def numbers_of_seeds(seeds: Sequence[int], positions: Sequence[int] | np.ndarray) -> np.ndarray:
    """uint64 [B], the numbers of `seeds` at `positions`, as the selector `dist` draws them."""
    return draw64(np.array(seeds, np.uint64), np.asarray(positions, np.int64), SELECTOR_STREAM)


def numbers_of_shares(shares: np.ndarray) -> np.ndarray:
    """uint64 [B], float32 `shares` in [0, 1] of 2^64, less than that for 1."""
    numbers = np.minimum(shares.astype(np.float64) * 2.0**64, _BELOW_2_64).astype(np.uint64)
    numbers[shares >= 1] = 2**64 - 1
    return numbers


_BELOW_2_64 = float(np.nextafter(2.0**64, 0))


def one_stream(seed: int, rows: int) -> np.ndarray:
    """float32 [rows], a number in [0, 1] for each row, in row order, from one stream of rand()."""
    return _shares(np.fromiter(glibc_rand(seed), np.int64, rows))


def first_numbers(seeds: Sequence[int]) -> np.ndarray:
    """float32 [B], for each seed the first number in [0, 1] that rand() returns for it."""
    return _shares(first_rands(np.array(seeds, np.int64)))


def _shares(numbers: np.ndarray) -> np.ndarray:
    return (numbers / RAND_MAX).astype(np.float32)
