"""The random numbers that decide the rows: of this library, and of glibc's rand()."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import cycle, islice

import numpy as np

from engine_sampler.arithmetic import SELECTOR_STREAM, draw64


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


RAND_MAX = 0x7FFFFFFF
_LENGTH, _LAG, _DISCARDED = 31, 3, 310


def glibc_rand(seed: int) -> Iterator[int]:
    """The numbers that rand() returns after srand(seed), each from 0 to RAND_MAX; `seed` has 32 bits.

    An additive feedback generator: r[i] = r[i − 3] + r[i − 31] mod 2^32, returned as r[i] >> 1. The
    first 31 come from the minimal standard generator, r[i] = 16807·r[i − 1] mod (2^31 − 1), in which
    the seed is read as a signed number and 0 as 1. The first 310 sums are discarded.
    """
    return islice(_sums(seed), _DISCARDED, None)


def first_rands(seeds: np.ndarray) -> np.ndarray:
    """The first number of each of the `seeds`, int64 [n], from 0 to RAND_MAX."""
    words = np.where(seeds == 0, 1, seeds)
    signed = words - ((words & 0x80000000) << 1)
    powers, factors = _first_sum()
    start = powers[:, None] * (signed % RAND_MAX) % RAND_MAX
    start[0] = words
    sums = (factors @ start.view(np.uint64)) & np.uint64(0xFFFFFFFF)
    return (sums >> np.uint64(1)).view(np.int64)


@lru_cache
def _first_sum() -> tuple[np.ndarray, np.ndarray]:
    """(powers, factors) [31]: of 16807, int64, which times the seed are the first words; and of these words,
    uint64, in the first sum that is returned."""
    recent = np.eye(_LENGTH, dtype=np.uint64)
    for index in islice(_places(), _DISCARDED + 1):
        recent[index] += recent[index - _LAG]
    powers = np.array([pow(16807, i, RAND_MAX) for i in range(_LENGTH)])
    return powers, recent[index] & np.uint64(0xFFFFFFFF)


def _places() -> Iterator[int]:
    """Where each next sum is stored."""
    return cycle((*range(_LAG, _LENGTH), *range(_LAG)))


def _sums(seed: int) -> Iterator[int]:
    word = seed or 1
    recent = [word]
    word -= (word & 0x80000000) << 1
    while len(recent) < _LENGTH:
        word = 16807 * word % RAND_MAX
        recent.append(word)
    for index in _places():
        recent[index] = (recent[index] + recent[index - _LAG]) & 0xFFFFFFFF
        yield recent[index] >> 1
