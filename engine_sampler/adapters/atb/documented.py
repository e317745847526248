"""ATB's TopkToppSampling as its documentation has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...arithmetic import distances, pick_by_weight, weights
from ...params import SamplingParams
from ...stateless import process_logits, sample
from .rows import MASS_BITS, Batch, Drawn, in_order, race


def draw_seeded(batch: Batch, seeds: Sequence[int], positions: Sequence[int]) -> Iterator[Drawn]:
    """One `Drawn` per row, from this library's random numbers for `seeds` [B] and `positions` [B]."""
    params = [_params(batch, i, seed) for i, seed in enumerate(seeds)]
    for token in sample(batch.logits(), params, positions=positions).token_ids.tolist():
        yield Drawn(token)


def draw_given(batch: Batch) -> Iterator[Drawn]:
    """One `Drawn` per row, from the random numbers that the batch brings."""
    params = [_params(batch, i, None) for i in range(len(batch.bits))]
    for i, row in enumerate(process_logits(batch.logits(), params)):
        columns, values = np.flatnonzero(row > -np.inf), batch.values(i)
        kept = in_order(row, columns)
        if batch.exp is not None:
            token = columns[race(values[columns], batch.exp[i, columns])]
        else:
            assert batch.rand is not None
            token = kept[_at_share(row[kept], float(batch.rand[i]))]
        yield Drawn(int(token), kept, float(values[kept].sum(dtype=np.float64)))


def _params(batch: Batch, i: int, seed: int | None) -> SamplingParams:
    """Top-p counts in the probabilities as they are given, whatever they add up to; 1 leaves all.

    Both filters keep the head of the same order, so top-p may go first: top-k does not rescale it.
    """
    mass = int(batch.table.masses[batch.bits[i]].sum())
    p = float(batch.topp[i])
    top_p = min(1.0, p * 2.0**MASS_BITS / mass) if p < 1 and mass else 1.0
    return SamplingParams(top_k=int(batch.topk[i]), top_p=top_p, order="mlx", seed=seed)


def _at_share(logits: np.ndarray, share: float) -> int:
    """The first place of `logits` at which the cumulative weight exceeds that share of the whole."""
    bits = min(int(share * 2.0**64), 2**64 - 1)
    return int(pick_by_weight(weights(distances(logits[None])), np.array([bits], np.uint64))[0])
