"""Random numbers from a counter: Philox4x32-10, keyed by seed, position and stream."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.packaged import load_histories

_MASK32 = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


SELECTOR_STREAM = 0
"""The stream of the number that draws the token; those of samplers follow from their names."""


_CHILD_STREAM = 0xFFFFFFFF


_ARRAY_ROWS = 8
"""Below this many rows, Python integers are faster than NumPy arrays; both give the same numbers."""


_MANY_DRAWS = 32
"""From this many numbers on, NumPy multiplies them faster than Python."""


_LOW, _HALF = np.uint64(_MASK32), np.uint64(32)


_MOST_AHEAD = 1024
"""So many numbers are drawn ahead at most: what those of a request that leaves have cost is lost."""


def philox4x32(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any]) -> tuple[Any, ...]:
    """Philox4x32-10 (Salmon et al. 2011). Words are Python ints; or the third, and any others, are uint64
    arrays [n] holding 32 bits."""
    if isinstance(counter[2], np.ndarray):
        return _philox_of_arrays(counter, key)
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        a = c0 * _MULTIPLIERS[0]
        b = c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & _MASK32, (a >> 32) ^ c3 ^ k1, a & _MASK32
        k0 = (k0 + _WEYL[0]) & _MASK32
        k1 = (k1 + _WEYL[1]) & _MASK32
    return c0, c1, c2, c3


_PAIR, _STEPS = (np.array([words], np.uint64).T for words in (_MULTIPLIERS, _WEYL))
_HALF, _LOW = np.array(32, np.uint64), np.array(_MASK32, np.uint64)
"""Arrays without dimensions: NumPy converts a Python int, or a scalar, in every operation."""


def _philox_of_arrays(counter: tuple[Any, ...], key: tuple[Any, Any]) -> tuple[Any, ...]:
    """The same with both halves of each round in one array [2, n], which takes half as many operations, and
    in place, since new arrays of many rows would cost as much again."""
    halves = np.empty((4, 2, len(counter[2])), np.uint64)
    for half, pair in zip(halves, (counter[::2], counter[1::2], key), strict=False):
        half[0], half[1] = pair
    even, odd, keys, products = halves
    crossed = products[::-1]
    for _ in range(_ROUNDS):
        np.multiply(even, _PAIR, out=products)
        np.right_shift(crossed, _HALF, out=even)
        even ^= odd
        even ^= keys
        np.bitwise_and(crossed, _LOW, out=odd)
        keys += _STEPS
        keys &= _LOW
    return even[0], odd[0], even[1], odd[1]


def draw64(seed: np.ndarray, position: np.ndarray, stream: int, draw: int = 0) -> np.ndarray:
    """64 random bits for each row: uint64 [n] from uint64 `seed` [n] and int64 `position` [n]."""
    in_c = _draws_in_c()
    return _draw64(seed, position, stream, draw) if in_c is None else in_c(seed, position, stream, draw)


@functools.cache
def _draws_in_c() -> Callable[[np.ndarray, np.ndarray, int, int], np.ndarray] | None:
    """`draw64` by the packaged library; None without it."""
    loaded = load_histories()
    if loaded is None:
        return None
    library, ffi = loaded
    fill, from_buffer = library.es_histories_draws, ffi.from_buffer

    def draw64(seed: np.ndarray, position: np.ndarray, stream: int, draw: int) -> np.ndarray:
        seeds = np.ascontiguousarray(seed, np.uint64)
        positions = np.ascontiguousarray(position, np.int64)
        numbers = np.empty(len(seeds), np.uint64)
        fill(
            len(numbers),
            from_buffer("uint64_t[]", seeds),
            from_buffer("int64_t[]", positions),
            stream,
            draw,
            from_buffer("uint64_t[]", numbers),
        )
        return numbers

    return draw64


def _draw64(seed: np.ndarray, position: np.ndarray, stream: int, draw: int) -> np.ndarray:
    """The same in NumPy."""
    if len(seed) < _ARRAY_ROWS:
        pairs = zip(seed.tolist(), position.tolist(), strict=True)
        return np.array([_draw_words(s, p, stream, draw) for s, p in pairs], np.uint64)
    drawn: np.ndarray = _draw_words(seed, position.astype(np.uint64), stream, draw)
    return drawn


class DrawsAhead:
    """The random numbers of some rows at one position after the other, drawn for a growing number of
    positions at once: an array of many costs little more than one of few."""

    def __init__(self, stream: int, draw: int) -> None:
        self._stream, self._draw = stream, draw
        self._seed = self._next = b""
        self._drawn: list[np.ndarray] = []
        self._most = 1

    def at(self, seed: np.ndarray, position: np.ndarray) -> np.ndarray:
        """`draw64` of these rows; nothing is left to compute if the last calls were for the same seeds at the
        positions before."""
        seeds = seed.tobytes()
        if position.tobytes() != self._next or seeds != self._seed:
            self._most, self._drawn = 1, []
        if not self._drawn:
            ahead = max(1, min(self._most, _MOST_AHEAD // max(len(seed), 1)))
            positions = np.add.outer(np.arange(ahead), position).ravel()
            numbers = draw64(np.tile(seed, ahead), positions, self._stream, self._draw)
            self._drawn = list(numbers.reshape(ahead, -1))[::-1]
            self._most, self._seed = 2 * ahead, seeds
        self._next = (position + 1).tobytes()
        return self._drawn.pop()


def child_seed(seed: int, index: int) -> int:
    """The seed of sibling `index` of a group: `seed` itself for 0, a Philox word pair for the others."""
    return seed if index == 0 else int(_draw_words(seed, 0, _CHILD_STREAM, index))


def _draw_words(seed: Any, position: Any, stream: int, draw: int) -> Any:
    counter = (draw, stream, position & _MASK32, position >> 32)
    x0, x1, _, _ = philox4x32(counter, (seed & _MASK32, seed >> 32))
    return x0 | x1 << 32


@functools.cache
def stream_of(name: str) -> int:
    """The random stream of a sampler: the first four bytes of sha256(name), 0 becoming 1."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little") or 1


def scale_draw(r: np.ndarray, total: np.ndarray) -> np.ndarray:
    """(r·S) >> 64 as int64 [n], for uint64 `r` and totals `S` below 2^63."""
    if len(r) < _MANY_DRAWS:
        products = (a * b for a, b in zip(r.tolist(), total.tolist(), strict=True))
        return np.array([product >> 64 for product in products], np.int64)
    low, high = r & _LOW, r >> _HALF
    total = total.astype(np.uint64)
    total_low, total_high = total & _LOW, total >> _HALF
    across, along = low * total_high, high * total_low
    carried = (low * total_low >> _HALF) + (across & _LOW) + (along & _LOW)
    scaled = high * total_high + (across >> _HALF) + (along >> _HALF) + (carried >> _HALF)
    return scaled.astype(np.int64)


def coin(r: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """bool [n]: (r >> 11) < q·2^53."""
    return (r >> np.uint64(11)).astype(np.float64) < probability * 2.0**53
