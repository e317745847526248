"""What is drawn at random reaches everything that a request may have."""

from __future__ import annotations

import numpy as np

from engine_sampler.contract import Param
from engine_sampler.testing.search.drawing import (
    LARGEST,
    MOST_ROWS,
    draw_case,
    draw_depth,
    draw_seed,
    draw_size,
    draw_sizes,
    draw_value,
)

NUMBERS = [np.random.default_rng(number) for number in range(300)]


def test_sizes_are_of_every_order_of_magnitude_and_within_their_bounds() -> None:
    sizes = [draw_size(random) for random in NUMBERS]
    assert min(sizes) == 1
    assert max(sizes) > 100_000
    assert max(sizes) <= LARGEST
    assert {draw_size(random, 17, 17) for random in NUMBERS} == {17}
    assert all(3 <= size <= 40 for random in NUMBERS for size in draw_sizes(random, 3, 40))


def test_batches_have_up_to_seventy_rows_with_parameters_of_their_own() -> None:
    cases = [draw_case(random, [{"near": 0.5}, {"near": 2.0}], 9) for random in NUMBERS]
    assert {2, MOST_ROWS} <= {len(case) + (len(case) == MOST_ROWS - 1) for case in cases}
    assert any(len({given["near"] for given in case.params}) == 2 for case in cases)
    assert max(len(tokens) for case in cases for tokens in case.outputs) > 64
    assert any(np.unique(case.logits[0]).size < 4 for case in cases)


def test_large_vocabularies_have_many_ties_and_rows_with_few_tokens() -> None:
    case = draw_case(np.random.default_rng(1), [{}], LARGEST)
    alive = case.alive.sum(axis=1)
    best = (case.logits == case.logits.max(axis=1, keepdims=True)).sum(axis=1)
    assert alive.min() < LARGEST // 2
    assert best.max() > 20_000


def test_seeds_have_64_bits() -> None:
    seeds = {draw_seed(random) for random in NUMBERS}
    assert {0, 2**64 - 1} < seeds
    assert any(2**63 < seed < 2**64 - 1 for seed in seeds)


def test_most_rollbacks_are_short_and_some_reach_the_beginning() -> None:
    depths = [draw_depth(random, 100) for random in NUMBERS]
    assert np.median(depths) < 6
    assert max(depths) > 90
    assert {draw_depth(random, 0) for random in NUMBERS} == {0}


def test_values_stay_within_the_bounds_of_their_parameter() -> None:
    number, count = Param("near", float, 0.0, low=0, high=2), Param("many", int, 0, low=0, high=9)
    assert all(0 <= draw_value(random, number, 1.5) <= 2 for random in NUMBERS)
    assert {draw_value(random, count, 3) for random in NUMBERS} <= set(range(10))
    texts = {draw_value(random, Param("word", str, ""), "ab") for random in NUMBERS}
    assert {len(text) for text in texts} >= {2, 3}
    assert draw_value(NUMBERS[0], Param("ids", list, None), (1, 2)) == (1, 2)
