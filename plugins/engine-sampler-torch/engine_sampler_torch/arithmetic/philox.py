"""What is done with random numbers on the device; they are drawn on the host."""

from __future__ import annotations

from torch import Tensor

_WORD = 0xFFFFFFFF
_HALF = 0xFFFF


def scale_draw(r: Tensor, total: Tensor) -> Tensor:
    """(r·S) >> 64 as int64 [n], for the bits of unsigned `r` as int64 [n] and totals `S` below 2^63.

    r has four limbs of 16 bits and S two of 32, so that no product reaches 2^48.
    """
    r0, r1, r2, r3 = (r >> shift & _HALF for shift in (0, 16, 32, 48))
    low, high = total & _WORD, total >> 32
    carry = r0 * low >> 16
    carry = carry + r1 * low >> 16
    carry = carry + r2 * low + r0 * high >> 16
    carry = carry + r3 * low + r1 * high >> 16
    return carry + r2 * high + (r3 * high << 16)
