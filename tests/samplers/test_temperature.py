from __future__ import annotations

import numpy as np
import pytest

from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.samplers.temperature import Temperature
from engine_sampler.testing import apply_sampler

from ..reference import NEG_INF, order, softmax

TEMPERATURE = Temperature()


def row(seed: int, m: int = 300, spread: float = 4) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=m) * spread).astype(np.float32)


def reference_dynatemp(logits: np.ndarray, temperature: float, half: float, exponent: float) -> np.ndarray:
    """Dynamic temperature with natural logarithms in float64."""
    p = softmax(logits)
    share = -(p[p > 0] * np.log(p[p > 0])).sum() / np.log((logits > NEG_INF).sum())
    low, high = max(0.0, temperature - half), temperature + half
    return logits.astype(np.float64) / (low + (high - low) * share**exponent)


@pytest.mark.parametrize("temperature", [1e-4, 0.3, 0.8, 1.7, 50, 1e6])
def test_logits_are_multiplied_by_the_rounded_inverse(temperature: float) -> None:
    expected = row(0) * np.float32(1 / temperature)
    assert np.array_equal(apply_sampler(TEMPERATURE, row(0), {"temperature": temperature}), expected)


@pytest.mark.parametrize("temperature", [0.0, 9e-5])
def test_below_a_ten_thousandth_only_the_first_token_in_order_stays(temperature: float) -> None:
    logits = np.round(row(1))
    best = order(logits)[0]
    expected = np.where(np.arange(len(logits)) == best, logits, NEG_INF)
    assert np.array_equal(apply_sampler(TEMPERATURE, logits, {"temperature": temperature}), expected)


def test_a_greedy_row_does_not_affect_the_others_of_its_batch() -> None:
    rows = np.stack([row(2), row(3)])
    both = apply_sampler(TEMPERATURE, rows, [{"temperature": 0.0}, {"temperature": 0.5}])
    assert (both[0] > NEG_INF).sum() == 1
    assert np.array_equal(both[1], rows[1] * 2)


def test_overflow_is_clamped_to_the_greatest_float() -> None:
    hot = apply_sampler(TEMPERATURE, [1e38, -1e38, 0.0, NEG_INF], {"temperature": 1e-3})
    assert hot.tolist() == [FLT_MAX, -FLT_MAX, 0.0, NEG_INF]


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.4])
@pytest.mark.parametrize("half", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, -1.0])
def test_dynamic_temperature_equals_its_definition(temperature: float, half: float, exponent: float) -> None:
    given = {"temperature": temperature, "dynatemp_range": half, "dynatemp_exponent": exponent}
    for seed, spread in enumerate((0.5, 2, 4)):
        logits = row(seed, 500, spread)
        logits[::7] = NEG_INF
        expected = reference_dynatemp(logits, temperature, half, exponent)
        assert apply_sampler(TEMPERATURE, logits, given) == pytest.approx(expected, rel=1e-5)


def test_a_dynamic_temperature_leaves_a_single_token_unchanged() -> None:
    logits = [NEG_INF, 3.25, NEG_INF]
    assert apply_sampler(TEMPERATURE, logits, {"dynatemp_range": 0.9}).tolist() == logits


def test_a_certain_row_gets_the_lowest_temperature_but_not_zero() -> None:
    given = {"temperature": 0.5, "dynatemp_range": 0.5}
    assert apply_sampler(TEMPERATURE, [1.0, -40.0], given) == pytest.approx([1e4, -4e5])


def test_a_negative_exponent_does_not_make_the_temperature_infinite() -> None:
    given = {"dynatemp_range": 0.5, "dynatemp_exponent": -100.0}
    out = apply_sampler(TEMPERATURE, [1.0, -3.0, NEG_INF], given)
    assert out == pytest.approx([1e-6, -3e-6, NEG_INF])


def test_range_alone_turns_it_on() -> None:
    off = {"temperature": 1.0, "dynatemp_range": 0.0}
    assert not TEMPERATURE.is_active(off)
    assert TEMPERATURE.is_active({**off, "dynatemp_range": 0.1})
