"""Weights, shares and draws in torch equal the core's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from engine_sampler_torch import arithmetic

from engine_sampler import arithmetic as reference
from engine_sampler.testing import KINDS

RANDOM = np.random.default_rng(3)
VOCAB = 3001
ROWS = np.stack([kind(RANDOM, VOCAB) for name, kind in KINDS.items() if name != "extreme"]).astype(np.float32)


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array))


def expect_equal(found: torch.Tensor, expected: np.ndarray) -> None:
    assert found.numpy().dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


def test_distances_weights_and_informations_are_equal_bit_for_bit() -> None:
    y = reference.distances(ROWS)
    w = reference.weights(y)
    found = arithmetic.distances(tensor(ROWS))
    expect_equal(found, y)
    expect_equal(arithmetic.weights(found), w)
    expect_equal(arithmetic.information(tensor(w), found), reference.information(w, y))
    entropy = arithmetic.entropy_bits(tensor(w), found, tensor(w.sum(axis=1)))
    expect_equal(entropy, reference.entropy_bits(y, w))


def test_every_distance_near_a_rounding_has_the_weight_of_the_core() -> None:
    halves = np.arange(-64, 1, dtype=np.float32) / 2
    near = [np.nextafter(halves, np.float32(toward), dtype=np.float32) for toward in (-1e9, 1e9)]
    y = np.concatenate([halves, *near, RANDOM.uniform(-32, 0, 200_000).astype(np.float32), [-np.inf]])
    y = np.minimum(y, 0).astype(np.float32)
    expect_equal(arithmetic.weights(tensor(y)), reference.weights(y))


def test_shares_of_a_mass_are_equal_at_exact_boundaries_too() -> None:
    total = RANDOM.integers(1 << 30, 1 << 48, 20_000)
    share = np.where(RANDOM.random(20_000) < 0.5, RANDOM.random(20_000), RANDOM.integers(0, 9, 20_000) / 8)
    found = tensor(share), tensor(total)
    expect_equal(arithmetic.mass_reaching(*found), reference.mass_reaching(share, total))
    expect_equal(arithmetic.mass_within(*found), reference.mass_within(share, total))
    share[:3] = 0.0, np.inf, 1e300
    expect_equal(
        arithmetic.weight_of_share(tensor(share), tensor(total)), reference.weight_of_share(share, total)
    )


@pytest.mark.parametrize("bits", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_draw_is_scaled_as_by_integers_of_any_size(bits: int) -> None:
    total = np.concatenate(
        [[1, 2**30, 2**32 - 1, 2**32, 2**62, 2**63 - 1], RANDOM.integers(1, 2**63 - 1, 500)]
    )
    for draws in (np.full(len(total), bits, np.uint64), RANDOM.integers(0, 2**64, len(total), np.uint64)):
        found = arithmetic.scale_draw(tensor(draws.view(np.int64)), tensor(total))
        expect_equal(found, reference.scale_draw(draws, total))


def test_the_drawn_column_is_the_first_whose_cumulative_weight_exceeds_the_draw() -> None:
    w = reference.weights(reference.distances(ROWS))
    for draws in (RANDOM.integers(0, 2**64, len(w), np.uint64), np.zeros(len(w), np.uint64)):
        found = arithmetic.pick_by_weight(tensor(w), tensor(draws.view(np.int64)))
        expect_equal(found, reference.pick_by_weight(w, draws))
    last = arithmetic.pick_by_weight(tensor(w), torch.full((len(w),), -1))
    expect_equal(last, reference.pick_by_weight(w, np.full(len(w), 2**64 - 1, np.uint64)))
