"""Draws at the edge between two tokens, of which random rows have hardly one in a million."""

from __future__ import annotations

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
