"""ATB's TopkToppSampling as its documentation describes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...arithmetic import SELECTOR_STREAM, distances, draw64, pick_by_weight, weights
from .leading import Leading, leading_tokens
from .rows import MASS_BITS, Draws, OperatorInputs, race


def draw_seeded(inputs: OperatorInputs, seeds: Sequence[int], positions: Sequence[int]) -> Draws:
    """Draws with the random numbers of `seeds` [B] at `positions` [B], as the selector `dist` draws."""
    kept = _kept(inputs)
    columns = kept.by_id()
    logits = inputs.table.logits[columns.bits]
    numbers = draw64(np.array(seeds, np.uint64), np.array(positions, np.int64), SELECTOR_STREAM)
    return _draws(inputs, kept, columns, pick_by_weight(weights(distances(logits)), numbers))


def draw_given(inputs: OperatorInputs) -> Draws:
    """Draws from the random numbers in the inputs."""
    kept = _kept(inputs)
    if inputs.rand is not None:
        logits = inputs.table.logits[kept.bits]
        shares = np.minimum(inputs.rand.astype(np.float64) * 2.0**64, _BELOW_2_64).astype(np.uint64)
        shares[inputs.rand >= 1] = 2**64 - 1
        return _draws(inputs, kept, kept, pick_by_weight(weights(distances(logits)), shares))
    columns = kept.by_id()
    winners = race(inputs.table.values[columns.bits], inputs.noise(columns.ids))
    return _draws(inputs, kept, columns, winners)


_BELOW_2_64 = float(np.nextafter(2.0**64, 0))


def _kept(inputs: OperatorInputs) -> Leading:
    """The fewest of the topk likeliest tokens that add up to at least topp; all of them for a topp of 1."""
    likeliest = leading_tokens(inputs.bits, inputs.topk)
    sums = inputs.table.masses[likeliest.bits].cumsum(axis=1)
    needed = np.ceil(inputs.topp * 2.0**MASS_BITS)
    sizes = (sums < needed[:, None]).sum(axis=1) + 1
    return likeliest.cut(np.where(inputs.topp < 1, np.minimum(sizes, likeliest.counts), likeliest.counts))


def _draws(inputs: OperatorInputs, kept: Leading, columns: Leading, drawn: np.ndarray) -> Draws:
    """The results for the `drawn` [B] columns of `columns`, which holds the tokens of `kept`."""
    shares = inputs.table.values[kept.bits]
    tokens = np.take_along_axis(columns.ids, drawn[:, None], axis=1)[:, 0]
    return Draws(tokens, shares, shares.sum(axis=1, dtype=np.float64))
