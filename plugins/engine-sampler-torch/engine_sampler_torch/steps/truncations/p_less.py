"""p_less: keep the tokens that are at least as likely as two draws are to be the same."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import ONE_WEIGHT
from engine_sampler.contract import Rows

from ..base import Block, DeviceStep, Given

_WORD = 32
_DIGIT, _DIGITS = 5, 7


class PLessStep(DeviceStep):
    name = "p_less"
    may_fail = False
    parameters_only = True

    def inputs(self, rows: Rows) -> dict[str, np.ndarray]:
        return {"norm": rows["p_less_norm"]}

    def apply(self, block: Block, tensors: Given, fixed: None) -> None:
        square = block.weights * block.weights
        high, low = (square >> _WORD).sum(1), (square & (1 << _WORD) - 1).sum(1)
        block.keep_heavy(collision_weight(block.total, high, low, block.alive, tensors["norm"]))


def collision_weight(total: Tensor, high: Tensor, low: Tensor, alive: Tensor, norm: Tensor) -> Tensor:
    """The least weight that stays, int64 [n]: w·S ≥ Q, Q = high·2^32 + low; w·S·(n − 1) ≥ n·Q − S² in the
    rows `norm` (bool [n]), divided by S first, so that nothing has more than 63 bits."""
    quotient, rest = _divided_product((high << 2) + (low >> 30), torch.full_like(total, ONE_WEIGHT), total)
    rest = rest + (low & ONE_WEIGHT - 1)
    quotient, rest = quotient + rest // total, rest % total
    fraction, left = _divided_product(rest, alive, total)
    others = (alive - 1).clamp_(min=1)
    above = alive * quotient - total + fraction + (left > 0)
    lower = ((above + others - 1) // others).masked_fill_(alive == 1, 0)
    return torch.where(norm, lower, quotient + (rest > 0))


def _divided_product(a: Tensor, b: Tensor, by: Tensor) -> tuple[Tensor, Tensor]:
    """a·b // by, and the rest of the division: int64 [n], for 0 ≤ a ≤ by < 2^57 and 0 ≤ b < 2^35."""
    quotient, rest = torch.zeros_like(a), torch.zeros_like(a)
    for shift in range((_DIGITS - 1) * _DIGIT, -1, -_DIGIT):  # five bits of b at a time
        rest = (rest << _DIGIT) + a * (b >> shift & (1 << _DIGIT) - 1)
        quotient = (quotient << _DIGIT) + rest // by
        rest = rest % by
    return quotient, rest
