"""Which bytes an expression cannot tell apart.

A partition is 256 bytes: of each byte the smallest one that is treated alike. So the derivative by a byte
is that by its smallest fellow, and is computed once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

WHOLE = bytes(256)
"""All bytes are alike."""


@lru_cache(maxsize=4096)
def of_class(mask: int) -> bytes:
    """The bytes of `mask` are alike, and so are the others."""
    bits = [mask >> byte & 1 for byte in range(256)]
    firsts = [bits.index(value) if value in bits else 0 for value in (0, 1)]
    return bytes(firsts[bit] for bit in bits)


@lru_cache(maxsize=4096)
def of_pair(one: bytes, other: bytes) -> bytes:
    """Bytes are alike where both partitions say so."""
    if one in (WHOLE, other):
        return other
    smallest: dict[tuple[int, int], int] = {}
    return bytes(smallest.setdefault(pair, byte) for byte, pair in enumerate(zip(one, other, strict=True)))


def meet(parts: Iterable[bytes]) -> bytes:
    """Bytes are alike where all partitions say so."""
    result = WHOLE
    for part in sorted(set(parts)):
        result = of_pair(result, part)
    return result


@lru_cache(maxsize=4096)
def representatives(partition: bytes) -> tuple[int, ...]:
    """One byte of each kind, the smallest."""
    return tuple(sorted(set(partition)))
