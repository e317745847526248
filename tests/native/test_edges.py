"""Where one unit of weight, one value or one token decides, which hardly ever happens in random rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from engine_sampler.arithmetic import draw64, scale_draw
from engine_sampler.contract import Chain, Rows
from engine_sampler.params import SamplingParams
from engine_sampler.requests.history import History
from tests.native.comparing import expect_equal, group_of, instruction_sets

POSITIONS = np.array([9373564, 14942718, 75582090, 88442189, 116243317, 127804524, 175442302, 180661873])
"""Where the number that draws the token, of seed 0, is below 2^40."""

LIGHT, HEAVY = np.float32(-30 * np.log(2)), np.float32(0)
"""Logits of tokens with the least weight, 1, and with the greatest, 2^30."""


def _of_seed_0(positions: np.ndarray, size: int) -> tuple[Chain, Rows]:
    """Requests that draw from the softmax, each at its position."""
    chain, rows = group_of(SamplingParams(), [History(()) for _ in positions], size)
    rows.slots.seeds[rows.slot_numbers] = 0
    rows.slots.positions[rows.slot_numbers] = positions
    return chain, rows


@pytest.mark.parametrize(
    ("light", "apart", "heavy"),
    [(63, 1, 1), (600, 1, 7), (64, 256, 1)],
    ids=["few tokens", "a long row", "one token in a chunk"],
)
def test_each_unit_of_weight_draws_its_own_token(light: int, apart: int, heavy: int) -> None:
    """Tokens of weight 1 come first: the target is the number of the drawn one."""
    n, size = len(POSITIONS), light * apart + heavy
    row = np.full(size, -np.inf, np.float32)
    row[: light * apart : apart] = LIGHT
    row[-heavy:] = HEAVY
    numbers = draw64(np.zeros(n, np.uint64), POSITIONS, 0)
    targets = scale_draw(numbers, np.full(n, heavy * 2**30 + light))
    assert (targets < light).all()
    chain, rows = _of_seed_0(POSITIONS, size)
    batch = expect_equal(instruction_sets(), chain, rows, np.tile(row, (n, 1)))
    assert batch.token_ids.tolist() == (targets * apart).tolist()


@pytest.mark.parametrize("heavy", [0, -1], ids=["a heavy one before", "a heavy one behind"])
def test_light_tokens_of_a_wide_row_are_told_apart(heavy: int) -> None:
    """Bounds of the weights before and behind these tokens are wider than they are themselves."""
    size, random = 40_000, np.random.default_rng(1)
    row = (LIGHT / 30 * random.uniform(23, 25, size)).astype(np.float32)
    row[heavy] = HEAVY
    share = float(np.exp(row[1:-1], dtype=np.float64).sum())
    numbers = draw64(np.zeros(8192, np.uint64), np.arange(8192), 0) / 2.0**64
    positions = np.flatnonzero(numbers > 1 - share if heavy == 0 else numbers < share)[:12]
    assert len(positions) == 12
    chain, rows = _of_seed_0(positions, size)
    batch = expect_equal(instruction_sets(), chain, rows, np.tile(row, (12, 1)))
    assert (row[batch.token_ids] < HEAVY).sum() >= 10


# --- cuts -----------------------------------------------------------------------------------------

NEARLY_ALL = 1 - 2.0**-20 - 1e-7
"""A share that, with the slack of 2^-20, leaves about a hundred units of weight."""

CUTS: tuple[Mapping[str, Any], ...] = (
    {"top_p": 1 - 1e-7},
    {"top_p": NEARLY_ALL, "top_p_cut": "exceed"},
    {"top_p": NEARLY_ALL, "top_p_cut": "below"},
    {"typical_p": 1 - 1e-7},
    {"tfs": NEARLY_ALL},
    {"epsilon_cutoff": 4 * 2.0**-30},
    {"top_a": 4 * 2.0**-30},
    {"order": ["xtc"], "xtc_probability": 1.0, "xtc_threshold": 4 * 2.0**-30},
)


@pytest.mark.parametrize("settings", CUTS, ids=lambda settings: next(reversed(settings)))
def test_each_unit_of_weight_counts_in_a_cut(settings: Mapping[str, Any]) -> None:
    for size in (200, 3000):
        random = np.random.default_rng(size)
        rows = (LIGHT + np.log(random.integers(1, 9, (12, size)))).astype(np.float32)
        rows[range(12), random.integers(0, size, 12)] = HEAVY
        _compare(settings, rows)


DYNAMIC = {"temperature": 0.8, "dynatemp_range": 0.5}
FEW_LEFT: tuple[Mapping[str, Any], ...] = (
    {"order": ["xtc"], "xtc_probability": 1.0, "xtc_threshold": 0.1, "min_keep": 4},
    {"order": ["xtc", "temperature"], "xtc_probability": 1.0, "xtc_threshold": 0.1, "min_keep": 2, **DYNAMIC},
    {"order": ["smoothing", "temperature"], "smoothing_factor": 0.2, **DYNAMIC},
    {"order": ["top_p"], "top_p": 0.1, "min_keep": 4},
    {"order": ["tfs"], "tfs": 0.1, "min_keep": 7},
)


@pytest.mark.parametrize("settings", FEW_LEFT, ids=lambda settings: " ".join(settings["order"]))
def test_removed_tokens_of_a_long_row_do_not_count(settings: Mapping[str, Any]) -> None:
    random = np.random.default_rng(2)
    rows = np.full((12, 1000), -np.inf, np.float32)
    for row in rows:
        row[random.integers(0, 1000, random.integers(3, 9))] = random.normal(0, 0.5)
        row[random.integers(0, 1000, 3)] = random.normal(0, 0.5, 3)
    _compare(settings, rows)


@pytest.mark.parametrize("size", [100, 1000, 1100])
def test_a_token_exactly_at_the_bound_of_top_n_sigma_stays(size: int) -> None:
    """Half of the tokens are two standard deviations below the other half."""
    row = np.repeat(np.float32([0, -1]), size // 2)
    _compare({"top_n_sigma": 2.0}, np.stack([row, row * 4, row[::-1].copy()]))


@pytest.mark.parametrize(
    "settings", [{}, {"top_p": 0.9}, {"typical_p": 0.9}, {"top_h": 0.5}, {"eta_cutoff": 1e-4}], ids=str
)
def test_the_weights_of_a_flat_chunk_are_added_up(settings: Mapping[str, Any]) -> None:
    """All tokens but one are the same number of bits below it."""
    rows = np.repeat(np.linspace(-0.5, -8, 16, dtype=np.float32)[:, None] * np.float32(np.log(2)), 1000, 1)
    rows[:, 700] = 0
    _compare(settings, rows)


def _compare(settings: Mapping[str, Any], logits: np.ndarray) -> None:
    n, size = logits.shape
    chain, rows = group_of(SamplingParams(**settings), [History(()) for _ in range(n)], size)
    expect_equal(instruction_sets(), chain, rows, logits)
