"""ATB's TopkToppSampling as its documentation describes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...arithmetic import distances, pick_by_weight, weights
from ...params import SamplingParams
from ...stateless import process_logits, sample
from .rows import MASS_BITS, DrawResult, OperatorInputs, in_order, race


def draw_seeded(
    inputs: OperatorInputs, seeds: Sequence[int], positions: Sequence[int]
) -> Iterator[DrawResult]:
    """One `DrawResult` per row, from this library's random numbers for `seeds` [B] and `positions` [B]."""
    params = [_params(inputs, i, seed) for i, seed in enumerate(seeds)]
    for token in sample(inputs.logits(), params, positions=positions).token_ids.tolist():
        yield DrawResult(token)


def draw_given(inputs: OperatorInputs) -> Iterator[DrawResult]:
    """One `DrawResult` per row, from the random numbers in the inputs."""
    params = [_params(inputs, i, None) for i in range(len(inputs.bits))]
    for i, row in enumerate(process_logits(inputs.logits(), params)):
        columns, values = np.flatnonzero(row > -np.inf), inputs.values(i)
        candidates = in_order(row, columns)
        if inputs.exp is not None:
            token = columns[race(values[columns], inputs.exp[i, columns])]
        else:
            assert inputs.rand is not None
            token = candidates[_index_at_share(row[candidates], float(inputs.rand[i]))]
        yield DrawResult(int(token), candidates, float(values[candidates].sum(dtype=np.float64)))


def _params(inputs: OperatorInputs, i: int, seed: int | None) -> SamplingParams:
    """The settings of row i. topp refers to the given probabilities, whatever their sum; 1 keeps all tokens.

    Both filters keep the head of the same order, so top-p may run first: top-k does not rescale it.
    """
    mass = int(inputs.table.masses[inputs.bits[i]].sum())
    p = float(inputs.topp[i])
    top_p = min(1.0, p * 2.0**MASS_BITS / mass) if p < 1 and mass else 1.0
    return SamplingParams(top_k=int(inputs.topk[i]), top_p=top_p, order="mlx", seed=seed)


def _index_at_share(logits: np.ndarray, share: float) -> int:
    """The first index of `logits` at which the cumulative weight exceeds that share of the total."""
    bits = min(int(share * 2.0**64), 2**64 - 1)
    return int(pick_by_weight(weights(distances(logits[None])), np.array([bits], np.uint64))[0])
