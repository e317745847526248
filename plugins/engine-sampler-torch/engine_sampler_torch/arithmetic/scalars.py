"""Scalar functions of the contract: log2, 2^x and powers in float64, one operation at a time."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from engine_sampler.arithmetic import EXP2_TERMS, LOG2_TERMS, SQRT_HALF

_GREATEST_EXPONENT = 1022
_SPLITTER = 2.0**27 + 1


def constant(value: float, like: Tensor) -> Tensor:
    """`value` as a tensor [] with the dtype and on the device of `like`: the operand of a true division."""
    return torch.full((), value, dtype=like.dtype, device=like.device)


def sum_in_order(terms: Iterable[Tensor]) -> Tensor:
    """The sum of tensors of one shape, from the first to the last."""
    first, *others = terms
    total = first.clone()
    for term in others:
        total.add_(term)
    return total


def square_root(x: Tensor) -> Tensor:
    """√x, correctly rounded, for float64 x that are 0 or within 2^±900: torch's own may be off by a unit in
    the last place on a CPU."""
    root = x.sqrt()
    above = torch.nextafter(root, torch.full_like(root, float("inf")))
    below = torch.nextafter(root, torch.zeros_like(root))
    rest = _minus_square(x, root)  # (root + u/2)² = root² + root·u + u²/4, and the rest is a multiple of u²
    rounded = torch.where(rest > root * (above - root), above, root)
    return torch.where(rest <= -root * (root - below), torch.where(root > 0, below, root), rounded)


def _minus_square(x: Tensor, root: Tensor) -> Tensor:
    """x − root², exactly, for a `root` of x that is off by a few units (Dekker 1971)."""
    scaled = root * _SPLITTER
    high = scaled - (scaled - root)
    low = root - high
    square = root * root
    error = ((high * high - square) + 2.0 * (high * low)) + low * low
    return (x - square) - error


def log2_64(x: Tensor) -> Tensor:
    """log2 of positive finite float64 `x` of any shape."""
    m, e = torch.frexp(x)
    small = m < SQRT_HALF
    m = torch.where(small, m + m, m)
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    series = torch.full_like(s, LOG2_TERMS[-1])
    for term in LOG2_TERMS[-2::-1]:
        series.mul_(square).add_(term)
    return (e - small.to(e.dtype)).to(torch.float64) + s * series


def exp2_64(x: Tensor) -> Tensor:
    """2^x for finite float64 `x` of any shape, clamped to 2^±1022."""
    x = x.clamp(-_GREATEST_EXPONENT, _GREATEST_EXPONENT)
    n = x.round()
    r = x - n
    series = torch.full_like(r, EXP2_TERMS[-1])
    for term in EXP2_TERMS[-2::-1]:
        series.mul_(r).add_(term)
    return series.mul_(_power_of_two(n))


def power(x: Tensor, exponent: Tensor) -> Tensor:
    """x^exponent = exp2_64(exponent·log2_64(x)) for float64 x ≥ 0, as in `engine_sampler.arithmetic`."""
    zero = x == 0
    result = exp2_64(exponent * log2_64(x.masked_fill(zero, 1.0)))
    at_zero = (exponent == 0).to(torch.float64).masked_fill_(exponent < 0, 2.0**_GREATEST_EXPONENT)
    return torch.where(zero, at_zero, result)


def _power_of_two(n: Tensor) -> Tensor:
    """2^n for integral float64 `n` in ±1022, by its exponent bits."""
    return n.to(torch.int64).add_(1023).bitwise_left_shift_(52).view(torch.float64)
