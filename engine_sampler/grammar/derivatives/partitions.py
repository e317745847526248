"""Partitions of the bytes into classes that an expression does not distinguish.

A partition is 256 bytes: for each byte the smallest byte of its class. The derivative by a byte equals the
derivative by that representative, so it is computed once per class.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

WHOLE = bytes(256)
"""The partition with a single class."""


@lru_cache(maxsize=4096)
def of_class(mask: int) -> bytes:
    """The partition into the bytes of `mask` and all others."""
    bits = [mask >> byte & 1 for byte in range(256)]
    firsts = [bits.index(value) if value in bits else 0 for value in (0, 1)]
    return bytes(firsts[bit] for bit in bits)


@lru_cache(maxsize=4096)
def of_pair(one: bytes, other: bytes) -> bytes:
    """The coarsest partition that refines both."""
    if one in (WHOLE, other):
        return other
    smallest: dict[tuple[int, int], int] = {}
    return bytes(smallest.setdefault(pair, byte) for byte, pair in enumerate(zip(one, other, strict=True)))


def meet(parts: Iterable[bytes]) -> bytes:
    """The coarsest partition that refines all of them."""
    result = WHOLE
    for part in sorted(set(parts)):
        result = of_pair(result, part)
    return result


@lru_cache(maxsize=4096)
def representatives(partition: bytes) -> tuple[int, ...]:
    """The smallest byte of each class."""
    return tuple(sorted(set(partition)))
