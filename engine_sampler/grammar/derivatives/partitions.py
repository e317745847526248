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
    firsts, seconds = representatives(first), representatives(second)
    if len(firsts) * len(seconds) > 256:
        pairs = list(zip(first, second, strict=True))
        smallest = dict(zip(reversed(pairs), range(255, -1, -1), strict=True))
        return bytes(map(smallest.__getitem__, pairs))
    # a byte for each pair of classes; all 256 are added at once
    tens = first.translate(_numbered(firsts, len(seconds)))
    ones = second.translate(_numbered(seconds, 1))
    codes = (int.from_bytes(tens, "big") + int.from_bytes(ones, "big")).to_bytes(256, "big")
    least = bytearray(256)
    for code in set(codes):
        least[code] = codes.index(code)
    return codes.translate(least)


def _numbered(bytes_: Iterable[int], step: int) -> bytearray:
    """A table of 256 bytes with the numbers of some bytes, times `step`."""
    table = bytearray(256)
    for number, byte in enumerate(bytes_):
        table[byte] = number * step
    return table


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
