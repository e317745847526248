"""ATB's TopkToppSampling as its documentation describes it."""

from __future__ import annotations

import numpy as np

from engine_sampler.arithmetic import distances, pick_by_weight, weights

from .leading import Leading, leading_tokens
from .rows import Decision, DrawingMethod, Draws, OperatorInputs, needed_masses, race


def draw(inputs: OperatorInputs, decision: Decision) -> Draws:
    """The draws of all rows."""
    if decision.way == DrawingMethod.BY_WEIGHT_OF_IDS and not decision.lists and _keeps_all(inputs):
        return _draw_from_all(inputs, decision)
    kept = _kept(inputs)
    columns = kept if decision.way == DrawingMethod.BY_WEIGHT_OF_RANKS else kept.by_id()
    if decision.numbers is None:
        drawn = race(inputs.table.values[columns.bits], inputs.noise(columns.ids))
    else:
        logits = inputs.table.logits[columns.bits]
        drawn = pick_by_weight(weights(distances(logits)), decision.numbers)
    shares = inputs.table.values[kept.bits]
    tokens = np.take_along_axis(columns.ids, drawn[:, None], axis=1)[:, 0]
    return Draws(tokens, shares, shares.sum(axis=1, dtype=np.float64))


def _keeps_all(inputs: OperatorInputs) -> bool:
    return bool((inputs.topp >= 1).all() and (inputs.topk >= inputs.bits.shape[1]).all())


def _draw_from_all(inputs: OperatorInputs, decision: Decision) -> Draws:
    assert decision.numbers is not None
    rows = len(inputs)
    tokens = pick_by_weight(weights(distances(inputs.table.logits[inputs.bits])), decision.numbers)
    return Draws(tokens, np.zeros((rows, 0), np.float32), np.zeros(rows))


def _kept(inputs: OperatorInputs) -> Leading:
    """The fewest of the topk likeliest tokens that add up to at least topp; all of them for a topp of 1."""
    likeliest = leading_tokens(inputs.bits, inputs.topk)
    sums = inputs.table.masses[likeliest.bits].cumsum(axis=1)
    sizes = (sums < needed_masses(inputs.topp)[:, None]).sum(axis=1) + 1
    return likeliest.cut(np.where(inputs.topp < 1, np.minimum(sizes, likeliest.counts), likeliest.counts))
