"""ATB's TopkToppSampling as its implementation was observed to work."""

from __future__ import annotations

import numpy as np

from .leading import leading_tokens
from .rows import Decision, Draws, OperatorInputs, race


def draw(inputs: OperatorInputs, decision: Decision) -> Draws:
    """The draws of all rows."""
    first = leading_tokens(inputs.bits, inputs.topk, decision.keeps_ties)
    values = inputs.table.values[first.bits]
    sums = running_sums(values, inputs.bfloat16)
    there = np.arange(values.shape[1]) < first.counts[:, None]
    topp = inputs.topp[:, None]
    if decision.numbers is None:
        head_sizes = (there & (sums <= topp)).sum(axis=1)
        head = first.cut(np.maximum(head_sizes, 1))
        ranks = np.broadcast_to(np.arange(head.ids.shape[1]), head.ids.shape)
        ranks = race(inputs.table.values[head.bits], inputs.noise(ranks))
    else:
        head_sizes = (there & (sums < topp)).sum(axis=1)
        bases = np.take_along_axis(sums, np.maximum(head_sizes - 1, 0)[:, None], axis=1)
        cuts = bases * decision.numbers[:, None]
        ranks = np.minimum((there & (sums <= cuts)).sum(axis=1), first.counts - 1)
    head_sizes = np.maximum(head_sizes, 1)
    tokens = np.take_along_axis(first.ids, ranks[:, None], axis=1)[:, 0]
    masses = np.take_along_axis(sums, head_sizes[:, None] - 1, axis=1)[:, 0]
    return Draws(tokens, inputs.table.values[first.cut(head_sizes).bits], masses.astype(np.float64))


def running_sums(values: np.ndarray, bfloat16: bool) -> np.ndarray:
    """Cumulative sums of descending float32 `values` [B, M], rounded to their 16 bits after every addition.

    They stop growing once a value is less than half the spacing of the numbers around the sum.
    """
    if not bfloat16:
        return values.astype(np.float16).cumsum(axis=1, dtype=np.float16).astype(np.float32)
    sums = np.empty_like(values)
    total = np.zeros(len(values), np.float32)
    for column in range(values.shape[1]):
        before, total = total, _to_bfloat16(total + values[:, column])
        if (total == before).all():
            sums[:, column:] = total[:, None]  # no later value is greater
            break
        sums[:, column] = total
    return sums


def _to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 `values` rounded to the nearest bfloat16, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + (0x7FFF + (bits >> 16 & 1))) & np.uint32(0xFFFF0000)).view(np.float32)
