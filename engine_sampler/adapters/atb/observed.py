"""ATB's TopkToppSampling as its implementation was observed to work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...arithmetic import top_columns
from .glibc_rand import RAND_MAX, glibc_rand
from .rows import DrawResult, OperatorInputs, in_order, race


def one_stream(seed: int, rows: int) -> list[float]:
    """A number in [0, 1] for each row, in row order, from one stream of rand()."""
    numbers = glibc_rand(seed)
    return [next(numbers) / RAND_MAX for _ in range(rows)]


def first_numbers(seeds: Sequence[int]) -> list[float]:
    """For each seed, the first number in [0, 1] that rand() returns for it."""
    return [next(glibc_rand(seed)) / RAND_MAX for seed in seeds]


def draw(
    inputs: OperatorInputs, exactly_k: bool, shares: Sequence[float] | np.ndarray | None
) -> Iterator[DrawResult]:
    """One `DrawResult` per row.

    exactly_k  whether top-k keeps the first topk tokens, or the first topk + 1 and all tokens that tie
               with the last of them.
    shares     numbers in [0, 1], one per row; None if exponential noise decides.
    """
    for i, logits in enumerate(inputs.logits()):
        order = _leading(logits, int(inputs.topk[i]), exactly_k)
        values = inputs.values(i)[order]
        sums = running_sums(values, inputs.bfloat16)
        if shares is None:
            assert inputs.exp is not None
            head_size = int((sums <= inputs.topp[i]).sum())
            rank = race(values[:head_size], inputs.exp[i, :head_size]) if head_size else 0
        else:
            head_size = int((sums < inputs.topp[i]).sum())
            cut = sums[max(head_size - 1, 0)] * np.float32(shares[i])
            rank = min(int((sums <= cut).sum()), len(order) - 1)
        head_size = max(head_size, 1)
        yield DrawResult(int(order[rank]), order[:head_size], float(sums[head_size - 1]))


def _leading(logits: np.ndarray, topk: int, exactly_k: bool) -> np.ndarray:
    """The tokens that top-k keeps in (probability desc, id asc) order, without any of probability 0."""
    first = top_columns(logits, min(topk + (not exactly_k), len(logits)))
    if not exactly_k:
        first = in_order(logits, np.flatnonzero(logits >= logits[first[-1]]))
    return first[logits[first] > -np.inf]


def running_sums(values: np.ndarray, bfloat16: bool) -> np.ndarray:
    """Cumulative sums of descending float32 `values` [n], rounded to their 16 bits after every addition.

    They stop growing once a value is less than half the spacing of the numbers around the sum.
    """
    if not bfloat16:
        return np.cumsum(values, dtype=np.float16).astype(np.float32)
    sums, total = np.empty_like(values), np.float32(0)
    for i, value in enumerate(values):
        before, total = total, _to_bfloat16(total + value)
        if total == before:
            sums[i:] = total  # no later value is greater
            break
        sums[i] = total
    return sums


def _to_bfloat16(value: np.float32) -> np.float32:
    """`value` rounded to the nearest bfloat16, ties to even."""
    bits = int(value.view(np.uint32))
    bits += 0x7FFF + (bits >> 16 & 1)
    return np.uint32(bits & 0xFFFF0000).view(np.float32)
