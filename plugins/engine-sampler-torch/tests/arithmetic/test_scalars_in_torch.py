"""Logarithms, powers and ordered sums in torch equal the core's."""

from __future__ import annotations

import numpy as np
import torch
from engine_sampler_torch import arithmetic

from engine_sampler import arithmetic as reference

RANDOM = np.random.default_rng(4)


def test_logarithms_are_equal_over_the_whole_range_of_float64() -> None:
    x = np.exp2(RANDOM.uniform(-1074, 1023.9, 200_000))
    x = np.concatenate([x, np.exp2(np.arange(-1074.0, 1024.0)), [5e-324, 1.0, np.sqrt(0.5), 1.7e308]])
    np.testing.assert_array_equal(arithmetic.log2_64(torch.from_numpy(x)).numpy(), reference.log2_64(x))


def test_square_roots_are_rounded_correctly_where_those_of_torch_are_not() -> None:
    x = np.concatenate([RANDOM.random(300_000) * 4, np.exp2(RANDOM.uniform(-900, 900, 300_000))])
    powers = np.exp2(np.arange(-900.0, 901.0))
    squares = RANDOM.random(300_000) ** 2
    x = np.concatenate([x, powers, np.nextafter(powers, 0), np.nextafter(powers, np.inf), squares, [0.0]])
    for tensor, expected in ((torch.from_numpy(x), np.sqrt(x)), (torch.from_numpy(x)[::3], np.sqrt(x[::3]))):
        np.testing.assert_array_equal(arithmetic.square_root(tensor).numpy(), expected)


def test_powers_of_two_are_equal_and_clamped() -> None:
    x = np.concatenate([RANDOM.uniform(-1100, 1100, 200_000), np.arange(-1030, 1031) / 2, [-1e9, 1e9, -0.0]])
    np.testing.assert_array_equal(arithmetic.exp2_64(torch.from_numpy(x)).numpy(), reference.exp2_64(x))


def test_powers_are_equal_for_zero_and_for_every_exponent() -> None:
    x, exponent = RANDOM.uniform(0, 1.1, 50_000), RANDOM.uniform(-100, 100, 50_000)
    x[:30] = 0.0
    exponent[:40:3] = 0.0
    found = arithmetic.power(torch.from_numpy(x), torch.from_numpy(exponent)).numpy()
    np.testing.assert_array_equal(found, reference.power(x, exponent))


def test_a_sum_in_order_is_that_of_one_addition_after_the_other() -> None:
    terms = RANDOM.normal(0, 1, (1000, 7)) * np.exp2(RANDOM.integers(-60, 60, (1000, 7)))
    found = arithmetic.sum_in_order(torch.from_numpy(terms).unbind(0)).numpy()
    np.testing.assert_array_equal(found, terms.cumsum(axis=0)[-1])
    assert (found != terms[::-1].cumsum(axis=0)[-1]).any()
