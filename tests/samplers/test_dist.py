from __future__ import annotations

import numpy as np
import pytest

from engine_sampler.samplers.dist import Dist
from engine_sampler.testing import select

from ..chi_square import agreement, assert_drawn_from
from ..reference import softmax
from .drawing import by_position, by_seed

DIST = Dist()
ROWS = {
    "plain": np.random.default_rng(0).normal(size=30) * 2,
    "flat": np.zeros(7),
    "peaked": np.array([9.0, 4, 3, 2, 1, 0]),
    "shifted far up": np.array([5000.0, 4999, 4998, 4997]),
    "partly removed": np.array([-np.inf, 1, 0.5, -np.inf, 0]),
}


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("kind", ROWS)
def test_draws_follow_the_softmax_over_many_seeds(kind: str) -> None:
    assert_drawn_from(softmax(ROWS[kind]), by_seed(DIST, ROWS[kind], {}))


@pytest.mark.parametrize("kind", ROWS)
def test_draws_follow_the_softmax_over_many_positions_of_one_seed(kind: str) -> None:
    assert_drawn_from(softmax(ROWS[kind]), by_position(DIST, ROWS[kind], {}))


def test_the_statistics_detect_a_wrong_distribution() -> None:
    off = softmax(ROWS["plain"] * 1.1)
    assert agreement(off, by_seed(DIST, ROWS["plain"], {})) < 1e-6


def test_a_wide_row_is_drawn_from_like_a_narrow_one() -> None:
    row = np.full(5000, -np.inf)
    places = np.sort(np.random.default_rng(1).permutation(5000)[:30])
    row[places] = ROWS["plain"]
    assert np.array_equal(by_seed(DIST, row, {}, 200), places[by_seed(DIST, ROWS["plain"], {}, 200)])


def test_a_token_thirty_one_bits_below_the_best_is_never_drawn() -> None:
    row = np.full(3000, -22.0)  # 31.7 bits
    row[1234] = 0.0
    assert set(by_seed(DIST, row, {}, 300).tolist()) == {1234}


def test_the_seed_and_the_position_determine_the_draw() -> None:
    row = np.zeros((1, 1000))
    first = select(DIST, row, {"seed": 1}, prompts=[[5, 6]]).columns
    assert first == select(DIST, row, {"seed": 1}, prompts=[[8]], outputs=[[9]]).columns
    assert first != select(DIST, row, {"seed": 2}, prompts=[[5, 6]]).columns
    assert first != select(DIST, row, {"seed": 1}, prompts=[[5]]).columns
