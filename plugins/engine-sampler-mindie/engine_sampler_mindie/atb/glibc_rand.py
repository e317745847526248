"""glibc's rand(), number for number."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import cycle, islice

import numpy as np

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
