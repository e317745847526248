"""Scalar functions of the contract: log2, 2^x and powers in float64, one operation at a time."""

from __future__ import annotations

import torch
from engine_sampler.arithmetic import scalars
from torch import Tensor

_LOG2_TERMS, _EXP2_TERMS, _SQRT_HALF = scalars._LOG2_TERMS, scalars._EXP2_TERMS, scalars._SQRT_HALF
_GREATEST_EXPONENT = 1022


def log2_64(x: Tensor) -> Tensor:
    """log2 of positive finite float64 `x` of any shape."""
    m, e = torch.frexp(x)
    small = m < _SQRT_HALF
    m = torch.where(small, m + m, m)
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    series = torch.full_like(s, _LOG2_TERMS[-1])
    for term in _LOG2_TERMS[-2::-1]:
        series.mul_(square).add_(term)
    return (e.to(torch.int64) - small.to(torch.int64)).to(torch.float64) + s * series


def exp2_64(x: Tensor) -> Tensor:
    """2^x for finite float64 `x` of any shape, clamped to 2^±1022."""
    x = x.clamp(-_GREATEST_EXPONENT, _GREATEST_EXPONENT)
    n = x.round()
    r = x - n
    series = torch.full_like(r, _EXP2_TERMS[-1])
    for term in _EXP2_TERMS[-2::-1]:
        series.mul_(r).add_(term)
    return series.mul_(_power_of_two(n))


def power(x: Tensor, exponent: Tensor) -> Tensor:
    """x^exponent = exp2_64(exponent·log2_64(x)) for float64 x ≥ 0, as in `engine_sampler.arithmetic`."""
    positive = x > 0
    result = exp2_64(exponent * log2_64(torch.where(positive, x, 1.0)))
    at_zero = torch.where(exponent < 0, 2.0**_GREATEST_EXPONENT, (exponent == 0).to(torch.float64))
    return torch.where(positive, result, at_zero)


def _power_of_two(n: Tensor) -> Tensor:
    """2^n for integral float64 `n` in ±1022, by its exponent bits: torch.ldexp would compute a power."""
    return n.to(torch.int64).add_(1023).bitwise_left_shift_(52).view(torch.float64)
