"""Logits as a tensor, and some of their rows as a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import LOGIT_LIMIT, LogitRows

from ..arithmetic import NEGATIVE_INFINITY
from ..steps import Block

_LIMIT = float(LOGIT_LIMIT)

READING, GRAMMAR = 0, 1
"""The numbers of what comes before the samplers of a chain, in the codes of faults."""
FIRST_SAMPLER = 2


def tensor_of(logits: LogitRows) -> Tensor:
    """The logits as the caller's tensor [rows, width], wherever it lies; those of the host as a tensor that
    shares their memory, if torch can do that."""
    source: Any = logits.source
    if logits.remote is not None:
        return source.detach() if getattr(source, "requires_grad", True) else source
    array = logits.array
    if not array.flags.writeable or min(array.strides, default=0) < 0 or not array.flags.aligned:
        array = array.copy()
    tensor = torch.from_numpy(array.view(np.int16) if logits.bfloat16 else array)
    return tensor.view(torch.bfloat16) if logits.bfloat16 else tensor


def read(logits: Tensor, index: Tensor | slice, vocab_size: int) -> Block:
    """The rows `index` of `logits` as float32: those below −2^100 are removed, rows with NaN, +inf or more
    than 2^100 are faulty, and so are those of −inf alone."""
    values = logits[index, :vocab_size].to(torch.float32)
    peak = values.amax(1)
    faults = torch.zeros(len(values), dtype=torch.int64, device=values.device)
    block = Block(
        values.masked_fill(values < -_LIMIT, NEGATIVE_INFINITY), None, vocab_size, faults, owned=True
    )
    too_great, empty = ~(peak <= _LIMIT), peak < -_LIMIT
    block.fail(too_great | empty, too_great + (1 + 2 * READING), peak)
    return block
