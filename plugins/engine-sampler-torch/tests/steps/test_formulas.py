"""Parts of formulas whose last bit random rows seldom show."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_sampler_torch.arithmetic import log2_mass
from engine_sampler_torch.steps.selectors.mirostat import gap
from engine_sampler_torch.steps.selectors.mirostat_v2 import MirostatV2Selector
from engine_sampler_torch.steps.truncations.top_n_sigma import sums_by_id
from torch_chains import apply_step, block_of, whole_rows

from engine_sampler.for_backends import default_registry
from engine_sampler.samplers import mirostat
from engine_sampler.samplers.top_n_sigma import sum_by_id
from engine_sampler.testing import make_rows

RANDOM = np.random.default_rng(21)
VOCAB = 5000
VALUES = (-np.exp2(RANDOM.uniform(-30, 30, (3, VOCAB)))).astype(np.float32)


@pytest.mark.parametrize("width", [VOCAB, VOCAB - 1, 257, 256, 3])
def test_sums_of_whole_rows_are_added_by_lane_and_chunk(width: int) -> None:
    values = VALUES[:, :width]
    found = sums_by_id(block_of(values.copy(), width), torch.from_numpy(np.stack([values, values * 2])))
    np.testing.assert_array_equal(found, np.stack([sum_by_id(values, None), sum_by_id(values * 2, None)]))


@pytest.mark.parametrize("width", [1, 64, 1024, 4000])
def test_sums_of_subsets_are_those_of_whole_rows_in_which_the_others_are_zero(width: int) -> None:
    ids = np.sort(RANDOM.permuted(np.tile(np.arange(VOCAB), (3, 1)), axis=1)[:, :width], axis=1)
    ids = np.pad(ids, ((0, 0), (0, 2)), constant_values=VOCAB)
    values = np.take_along_axis(np.pad(VALUES, ((0, 0), (0, 1))), ids, axis=1)
    whole = np.zeros((3, VOCAB + 1), np.float32)
    np.put_along_axis(whole, ids, values, axis=1)
    found = sums_by_id(block_of(values, VOCAB, ids), torch.from_numpy(values[None]))
    np.testing.assert_array_equal(found[0], sum_by_id(whole[:, :VOCAB], None))


def test_smoothing_adds_its_terms_from_left_to_right() -> None:
    """Where the square and the cube cancel out, another order gives another float32."""
    curve, factor = 1e6, 1e6
    sampler = default_registry().catalogue.samplers["smoothing"]
    rows = make_rows(sampler, [{"smoothing_factor": factor, "smoothing_curve": curve}] * 200, 60)
    cancelling = (3 - curve) / (curve - 1) + np.arange(-30, 30) * 2.0**-24
    logits = np.tile(cancelling.astype(np.float32), (200, 1))
    logits[:, 7] = RANDOM.uniform(0, 1e-6, 200)
    expected = logits.copy()
    sampler.apply(expected, rows)
    block = block_of(logits, 60)
    apply_step(sampler, block, rows)
    np.testing.assert_array_equal(whole_rows(block).view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("vocab_size", [1, 2, 300, 151_936])
def test_the_gap_of_mirostat_is_continued_to_zero_as_in_the_core(vocab_size: int) -> None:
    near = np.concatenate([RANDOM.uniform(-2e-3, 2e-3, 2000), RANDOM.uniform(-1, 30, 2000), [0.0, 1e-300]])
    found = gap(torch.from_numpy(near), vocab_size).numpy()
    np.testing.assert_array_equal(found, mirostat.gap(near, vocab_size))


def test_the_limit_of_mirostat_v2_is_rounded_to_float32_before_it_cuts() -> None:
    current = block_of(RANDOM.normal(0, 1, (1, 50)).astype(np.float32), 50)
    level = log2_mass(current.total)
    for j in range(50):
        just_below = -current.distances[:, j].to(torch.float64) + level - 1e-12
        assert MirostatV2Selector().kept(current, {"mu": just_below})[0, j]
