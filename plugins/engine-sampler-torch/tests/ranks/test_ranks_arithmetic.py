"""Keys that travel between ranks stand for logits and ids in order; weights are the contract's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_sampler_torch.ranks.vocabulary_parallel import arithmetic as ours

from engine_sampler.arithmetic import descending, distances, weights


@pytest.mark.parametrize("scale", [1e-3, 1.0, 5.0, 1e4])
def test_keys_and_levels_are_in_the_order_of_the_contract(scale: float) -> None:
    logits = (np.random.default_rng(0).normal(size=(20, 3000)) * scale).astype(np.float32)
    logits[:, ::7] = -np.inf
    logits[0, :4] = [0.0, -0.0, 1e-42, -1e-42]
    tensor = torch.from_numpy(logits)
    keys = ours.keys(tensor, torch.arange(3000))
    assert (np.argsort(-keys.numpy(), axis=1) == descending(logits)).all()
    assert (ours.key_logits(keys) == tensor).all()
    assert (ours.key_ids(keys) == torch.arange(3000)).all()
    levels = ours.levels(tensor)
    assert 0 <= int(levels.min()) <= int(levels.max()) < ours.LEVELS
    assert (ours.level_logits(levels) == tensor).all()
    assert (ours.weights_below(tensor, tensor.amax(1, True)).numpy() == weights(distances(logits))).all()


def test_the_ends_of_float32_have_keys_of_their_own() -> None:
    ends = torch.tensor([torch.inf, 3.4028235e38, 0.0, -3.4028235e38, -torch.inf])
    keys = ours.keys(ends, torch.full((5,), 2**32 - 1))
    assert (keys.diff() < 0).all()
    assert int(keys.min()) > ours.NO_KEY
    assert int(ours.keys(ends, torch.zeros(5, dtype=torch.int64)).max()) < ours.NAN_KEY
    assert ours.key_logits(keys).tolist() == ends.tolist()
    assert ours.key_logits(torch.tensor([ours.NAN_KEY])).isnan().all()
