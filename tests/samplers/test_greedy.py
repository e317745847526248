from __future__ import annotations

import numpy as np

from engine_sampler.samplers.greedy import Greedy
from engine_sampler.testing import select

from ..reference import order

GREEDY = Greedy()


def test_the_first_token_in_order_is_chosen() -> None:
    rows = np.random.default_rng(0).integers(-3, 3, (50, 200)).astype(np.float32)
    assert select(GREEDY, rows, {}).columns.tolist() == [order(row)[0] for row in rows]


def test_zeros_of_either_sign_tie() -> None:
    assert select(GREEDY, [[-1.0, -0.0, 0.0], [-1.0, 0.0, -0.0]], {}).columns.tolist() == [1, 1]


def test_the_seed_does_not_matter() -> None:
    rows = np.zeros((5, 10), np.float32)
    assert set(select(GREEDY, rows, {}, seeds=range(5)).columns.tolist()) == {0}
