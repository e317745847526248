"""`KernelOutcome`: what a step's kernels write for the host and for the next forward pass."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton.language as tl
from torch import Tensor

from .launching import launch
from .numbers import kernel

_AT_ONCE = 16
_STEP = 256


@dataclass(frozen=True)
class KernelOutcome:
    """token_ids  int64 [n], −1 for a faulty row.
    faults     int64 [n], 0 for a sound row, else a number of `FAULTS`.
    peaks      float32 [n], the greatest raw logit, NaN if any is NaN.
    verdicts   int64 [3, ≥ n], of which they are the first n places each; for one copy.

    All are on the device, and nothing has waited for them.
    """

    token_ids: Tensor
    faults: Tensor
    peaks: Tensor
    verdicts: Tensor

    @classmethod
    def empty(cls, rows: int, device: torch.device) -> KernelOutcome:
        """One, not written yet."""
        return cls.several(1, rows, device)[0]

    @classmethod
    def several(cls, count: int, rows: int, device: torch.device) -> list[KernelOutcome]:
        """`count` of them in one piece of memory, which is free again when none of their tensors is left."""
        # Triton compiles anew for addresses that are not multiples of 16.
        room = rows + rows % 2
        verdicts = torch.empty((count, 3, room), dtype=torch.int64, device=device)
        token_ids, faults, peaks = verdicts.unbind(1)
        parts = (token_ids[:, :rows], faults[:, :rows], peaks.view(torch.float32)[:, :rows], verdicts)
        return [cls(*tensors) for tensors in zip(*(part.unbind() for part in parts), strict=True)]


class Outcomes:
    """New outcomes for the same rows, step after step: allocated one by one, and divided, they would take
    the host longer than starting a kernel."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self._rows, self._device = rows, device
        self._left: list[KernelOutcome] = []

    def next(self) -> KernelOutcome:
        """One that nobody has had."""
        if not self._left:
            self._left = KernelOutcome.several(_AT_ONCE, self._rows, self._device)
        return self._left.pop()


@kernel()
def deliver(tokens, target, n, STEP: tl.constexpr):
    """Copy `tokens` int64 [n] to the address in `target`, int64 [1]; one program."""
    there = tl.load(target).to(tl.pointer_type(tl.int64))
    for start in range(0, n, STEP):
        places = start + tl.arange(0, STEP)
        tl.store(there + places, tl.load(tokens + places, mask=places < n), mask=places < n)


def deliver_tokens(tokens: Tensor, target: Tensor) -> None:
    """Copy `tokens`, int64 [n], to the address that is in `target`, int64 [1], when this is reached: so one
    graph can leave them in another place each time."""
    launch(deliver, (1,), tokens, target, len(tokens), STEP=_STEP, warps=4)
