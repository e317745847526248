"""Partitions of the bytes into classes that an expression does not distinguish.

A partition is 256 bytes: for each byte the smallest byte of its class. The derivative by a byte equals the
derivative by that representative, so it is computed once per class.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ..work import spend, spend_on_each

WHOLE = bytes(256)
"""The partition with a single class."""


@lru_cache(maxsize=4096)
def of_class(mask: int) -> bytes:
    """The partition into the bytes of `mask` and all others."""
    digits = f"{mask:0256b}"[::-1]
    firsts = bytearray(256)
    for digit in "01":
        firsts[ord(digit)] = max(0, digits.find(digit))
    return digits.encode().translate(firsts)


@lru_cache(maxsize=4096)
def of_pair(first: bytes, second: bytes) -> bytes:
    """The coarsest partition that refines both."""
    if second.translate(first) == first:  # `second` refines `first`
        return second
    if first.translate(second) == second:
        return first
    spend(20)
    pairs = list(zip(first, second, strict=True))
    smallest = dict(zip(reversed(pairs), range(255, -1, -1), strict=True))
    return bytes(map(smallest.__getitem__, pairs))


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


@lru_cache(maxsize=4096)
def classes(partition: bytes) -> dict[int, int]:
    """The bytes of each class as a mask, by the smallest of them."""
    found = {}
    for byte in spend_on_each(representatives(partition), 2):
        digits = bytearray(b"0" * 256)
        digits[byte] = ord("1")
        found[byte] = int(partition[::-1].translate(digits), 2)
    return found


def class_of(byte: int, partition: bytes) -> int:
    """The bytes of the class of a byte, as a mask."""
    return classes(partition)[partition[byte]]
