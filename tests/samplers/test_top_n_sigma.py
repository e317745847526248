import numpy as np
import pytest

from engine_sampler.params import SamplingParams
from engine_sampler.samplers.top_n_sigma import TopNSigma, sum_by_id
from engine_sampler.testing import apply_sampler
from tests.reference import kept

from .truncation import assert_the_same_on_any_subset, batches

SETTINGS = [{"top_n_sigma": n} for n in (0.01, 0.5, 1.0, 2.0, 5.0, 1e300)]
ROUNDING = 1e-6
"""How far Σx²/n may be from the exact one, relative, as its terms are float32."""


def left(logits, **params):
    return kept(apply_sampler(TopNSigma(), logits, params))


def lane_sum(values_by_id):
    """The documented order of additions, one number at a time."""
    lanes = {}
    for token_id, value in sorted(values_by_id.items()):
        lane = token_id // 256, token_id % 64
        lanes[lane] = np.float32(lanes.get(lane, np.float32(0)) + value)
    sums = [0.0] * 16
    for chunk in sorted({chunk for chunk, _ in lanes}):
        for j in range(16):
            a, b, c, d = (lanes.get((chunk, j + k), np.float32(0)) for k in (0, 16, 32, 48))
            sums[j] += float(np.float32(np.float32(a + b) + np.float32(c + d)))
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [x + y for x, y in zip(sums[:half], sums[half:], strict=True)]
    return sums[0]


@pytest.mark.parametrize("width", [1, 63, 64, 255, 256, 257, 2000])
def test_adds_up_in_the_documented_order(width):
    random = np.random.default_rng(width)
    values = random.normal(0, 1e3, (3, width)).astype(np.float32)
    expected = [lane_sum(dict(enumerate(row))) for row in values]
    assert sum_by_id(values, None).tolist() == expected
    ids = np.arange(width) * random.integers(1, 4) + np.array([[0], [1], [300]])
    expected = [lane_sum(dict(zip(*pair, strict=True))) for pair in zip(ids.tolist(), values, strict=True)]
    assert sum_by_id(values, ids).tolist() == expected


def test_keeps_tokens_within_n_population_deviations():
    tight = []
    for logits, params in batches(SETTINGS):
        result = apply_sampler(TopNSigma(), logits, params)
        for row, given, kept_row in zip(logits, params, result, strict=True):
            x = row[row > -np.inf].astype(np.float64) - float(row.max())
            room = ROUNDING * (x * x).mean()
            sigmas = [np.sqrt(max(0.0, x.var() + shift)) for shift in (-room, room)]
            least, most = (int((x >= -given["top_n_sigma"] * sigma * (1 + 1e-7)).sum()) for sigma in sigmas)
            assert least <= len(kept(kept_row)) <= most
            assert min(row[list(kept(kept_row))]) >= max(row[kept_row == -np.inf], default=-np.inf)
            tight.append(least == most)
    assert np.mean(tight) > 0.9


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(TopNSigma(), SETTINGS)


def test_removed_tokens_do_not_widen_the_deviation():
    row = np.random.default_rng(5).normal(0, 1, 200)
    sparse = np.full(1000, -np.inf)
    sparse[::5] = row
    assert left(sparse, top_n_sigma=1.0) == {5 * i for i in left(row, top_n_sigma=1.0)}


def test_scaling_the_row_does_not_change_what_is_kept():
    row = np.random.default_rng(6).normal(0, 3, 5000).astype(np.float32)
    assert left(row, top_n_sigma=1.5) == left(row * 0.25, top_n_sigma=1.5)


def test_nothing_is_removed_if_the_squares_overflow():
    row = np.array([1e30, 0.0, -1e30, -np.inf])
    assert left(row, top_n_sigma=0.1) == {0, 1, 2}


def test_equal_tokens_stay_together():
    assert left(np.full(700, 3.0), top_n_sigma=0.01) == set(range(700))


def test_zero_and_negative_values_are_off():
    for off in (0, -1, -0.5):
        assert not TopNSigma().is_active(SamplingParams(top_n_sigma=off))
    assert TopNSigma().is_active(SamplingParams(top_n_sigma=0.5))
