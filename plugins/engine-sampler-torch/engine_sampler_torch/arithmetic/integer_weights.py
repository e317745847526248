"""Weights: integers instead of softmax probabilities, as in `engine_sampler.arithmetic.integer_weights`.

Every operation below is one torch operation that rounds once; none of them may be fused with another.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine_sampler.arithmetic import FLT_MAX, LOG2_E, LOWEST_BITS, MASS_SLACK, WEIGHT_TERMS

from .philox import scale_draw
from .scalars import log2_64

NEGATIVE_INFINITY = float("-inf")
_FLT_MAX, _LOG2_E, _LOWEST_BITS = float(FLT_MAX), float(LOG2_E), float(LOWEST_BITS)
_C0, _C1, _C2, _C3, _C4, _C5 = (float(term) for term in WEIGHT_TERMS)


def settled(values: Tensor) -> Tensor:
    """Float32 `values` of any shape within ±FLT_MAX."""
    return values.clamp(-_FLT_MAX, _FLT_MAX)


def distances(values: Tensor, peak: Tensor | None = None) -> Tensor:
    """y = (l − max)·log2 e in float32, in bits below each row's maximum, for float32 `values` [n, m]; `peak`
    [n, 1] is the maximum of rows of which these are some columns."""
    return (values - (values.amax(1, keepdim=True) if peak is None else peak)).mul_(_LOG2_E)


def weights(y: Tensor) -> Tensor:
    """w = rint(2^(y + 30)) as int64, 0 where y < −31, for float32 distances `y` of any shape."""
    r = y.clamp(min=_LOWEST_BITS)
    n = r.round()
    r.sub_(n)
    p = (r * _C5).add_(_C4)
    square = r * r
    p.mul_(square)
    p.add_((r * _C3).add_(_C2))
    p.mul_(square)
    p.add_(r.mul_(_C1).add_(_C0))
    exponent = n.to(torch.int32).add_(157).bitwise_left_shift_(23)  # 30, and the bias 127
    return p.mul_(exponent.view(torch.float32)).round_().to(torch.int64)


def information(w: Tensor, y: Tensor) -> Tensor:
    """u = rint(float32(w·d)) as int64 with d = −y, and 0 where w = 0."""
    return y.clamp(min=_LOWEST_BITS).neg_().mul_(w.to(torch.float32)).round_().to(torch.int64)


def log2_mass(total: Tensor) -> Tensor:
    """L = log2_64(S) − 30, float64 [n], for int64 totals [n]."""
    return log2_64(total.to(torch.float64)) - 30.0


def entropy_bits(w: Tensor, y: Tensor, total: Tensor) -> Tensor:
    """H = L + E/S in bits, float64 [n], of weights and distances [n, m]; `total` is the sum of weights."""
    return log2_mass(total) + information(w, y).sum(1).to(torch.float64) / total.to(torch.float64)


def mass_reaching(p: Tensor, total: Tensor) -> Tensor:
    """The smallest weight that counts as reaching share `p` (float64): max(1, ceil((p − 2^−20)·S)), int64
    [n]."""
    return ((p - MASS_SLACK) * total.to(torch.float64)).ceil_().to(torch.int64).clamp_(min=1)


def mass_within(p: Tensor, total: Tensor) -> Tensor:
    """The largest weight that does not exceed share `p` (float64): floor((p + 2^−20)·S), int64 [n]."""
    return ((p + MASS_SLACK) * total.to(torch.float64)).floor_().to(torch.int64)


def weight_of_share(x: Tensor, total: Tensor) -> Tensor:
    """The smallest weight of a token with probability `x` (float64): ceil(x·(1 − 2^−20)·S), int64 [n]."""
    return (x.clamp(max=2.0) * (1.0 - MASS_SLACK) * total.to(torch.float64)).ceil_().to(torch.int64)


def pick_by_weight(w: Tensor, r: Tensor) -> Tensor:
    """The first column whose cumulative weight exceeds (r·S) >> 64: int64 [n] for `w` int64 [n, m] and the
    bits of `r` as int64 [n]."""
    cumulative = w.cumsum(1)
    target = scale_draw(r, cumulative[:, -1])
    return (cumulative <= target[:, None]).sum(1).clamp_(max=w.shape[1] - 1)
