"""Under a mask every pass reads the original row: with masks of every density native equals NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from engine_sampler.arithmetic import LogitRows
from tests.native.comparing import (
    NUMPY,
    accept_tokens,
    differences,
    expect_equal,
    halves,
    instruction_sets,
    random_block,
    random_group,
    run,
    times,
)
from tests.random_chains import SAMPLERS, SELECTORS, Random

SHARES = (1.0, 0.99, 0.8, 0.5, 0.2, 0.1, 1 / 50, 1 / 80)
"""Shares of tokens that a mask allows. Many are read along with the row; few are looked up."""

SIZES = (20, 256, 300, 1024, 2037)

DTYPES: Mapping[str, Callable[[np.ndarray], Any]] = {
    "float32": lambda logits: logits,
    "float16": halves,
    "bfloat16": lambda logits: LogitRows.from_bfloat16_bits(
        (logits.view(np.uint32) >> 16).astype(np.uint16), logits.shape[1]
    ),
}


def packed(allowed: np.ndarray, beyond: bool = False) -> np.ndarray:
    """int32 [n, words + 1] of bool `allowed` [n, size]; bits beyond the vocabulary are `beyond`."""
    n, size = allowed.shape
    words = -(-size // 32) + 1
    bits = np.full((n, words * 32), beyond)
    bits[:, :size] = allowed
    return np.packbits(bits, axis=1, bitorder="little").view("<i4").astype(np.int32)


def random_masks(random: Random, n: int, size: int) -> np.ndarray:
    """bool [n, size]: shares by turns; every third in runs, like the ids of tokens with a common prefix."""
    shares = np.resize(SHARES, n)[:, None]
    allowed = random.random((n, size)) < shares
    runs = np.repeat(random.random((n, -(-size // 90))) < shares, 90, axis=1)
    allowed[::3] = runs[::3, :size]
    return allowed


def run_steps(
    random: Random, size: int, settings: Mapping[str, Any], dtype: str = "float32", steps: int = 2
) -> int:
    """Draw under masks on all backends; returns how many tokens NumPy drew."""
    chain, rows = random_group(random, size, 2 * len(SHARES), settings)
    drawn = 0
    for step in range(steps):
        logits = DTYPES[dtype](random_block(random, len(rows), size))
        bitmask = packed(random_masks(random, len(rows), size), beyond=bool(step % 2))
        batch = expect_equal(instruction_sets(), chain, rows, logits, bitmask)
        accept_tokens(random, rows, batch)
        drawn += int((batch.token_ids >= 0).sum())
    return drawn


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_agrees_under_masks_of_every_density(sampler: str) -> None:
    drawn = 0
    for size in SIZES if sampler != "infill" else SIZES[:3]:
        random = np.random.default_rng([size, len(sampler)])
        for dtype in DTYPES:
            drawn += run_steps(random, size, SAMPLERS[sampler](random, size), dtype, steps=times(1))
    assert drawn > 0


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("selector", SELECTORS)
def test_every_selector_agrees_under_masks_of_every_density(selector: str) -> None:
    for size in SIZES:
        random = np.random.default_rng(size)
        for settings in ({}, {"top_k": 40}, {"repetition_penalty": 1.3, "temperature": 0.8}):
            assert run_steps(random, size, settings | SELECTORS[selector], steps=times(2)) > 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("k", [1, 3, 8, 300])
def test_the_first_tokens_are_found_among_the_allowed_ones(k: int, size: int) -> None:
    """If the best tokens of the row are removed, the greatest logits of its chunks are only bounds."""
    random = np.random.default_rng([k, size])
    chain, rows = random_group(random, size, 12, {"top_k": k})
    logits = random.normal(0, 3, (12, size)).astype(np.float32)
    ranks = np.argsort(np.argsort(-logits, axis=1), axis=1)
    gone = np.resize([0, 1, size // 100, size // 10, size // 2, size - 1], 12)[:, None]
    expect_equal(instruction_sets(), chain, rows, logits, packed(ranks >= gone))


def test_a_mask_that_allows_everything_changes_nothing() -> None:
    for size in SIZES:
        random = np.random.default_rng(size)
        chain, rows = random_group(random, size, 8, {"top_p": 0.9, "temperature": 0.7})
        logits = random_block(random, 8, size, faults=0)
        without = run(NUMPY, chain, rows, logits)
        masked = expect_equal(instruction_sets(), chain, rows, logits, packed(np.ones((8, size), bool)))
        assert differences(masked, without) == []


@pytest.mark.parametrize("number", [np.nan, np.inf, 2.0**101])
@pytest.mark.parametrize("share", [0.9, 0.01])
@pytest.mark.parametrize("size", SIZES)
def test_a_bad_logit_ends_its_row_where_the_mask_removes_it_too(
    size: int, share: float, number: float
) -> None:
    random = np.random.default_rng(size)
    chain, rows = random_group(random, size, 8, {"top_k": 5})
    logits = random.normal(0, 3, (8, size)).astype(np.float32)
    allowed = random.random((8, size)) < share
    allowed[:, 1] = True
    for i, place in enumerate((0, size // 2, size - 1)):
        logits[2 * i + 1, place] = number
        allowed[2 * i + 1, place] = False
    batch = expect_equal(instruction_sets(), chain, rows, logits, packed(allowed))
    assert [i for i, error in enumerate(batch.errors) if error] == [1, 3, 5]


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.0}, {"repetition_penalty": 1.3}])
@pytest.mark.parametrize("size", SIZES)
def test_a_mask_that_leaves_no_token_is_an_error_of_its_row(size: int, settings: Mapping[str, Any]) -> None:
    """It allows nothing, only tokens that are removed already, or only bits beyond the vocabulary."""
    random = np.random.default_rng(size)
    chain, rows = random_group(random, size, 6, settings)
    logits = random.normal(0, 3, (6, size)).astype(np.float32)
    allowed = np.ones((6, size), bool)
    allowed[1] = False
    allowed[3], allowed[5] = np.arange(size) >= 2, np.arange(size) < 2
    logits[3, 2:], logits[5, :2] = -np.inf, -(2.0**110)
    batch = expect_equal(instruction_sets(), chain, rows, logits, packed(allowed, beyond=True))
    assert [batch.errors[i] for i in (1, 3, 5)] == ["the grammar leaves no token"] * 3
    assert [batch.errors[i] for i in (0, 2, 4)] == [None] * 3


@pytest.mark.parametrize("share", [0.5, 0.01])
def test_no_bias_and_no_penalty_brings_back_what_the_mask_removes(share: float) -> None:
    size = 1500
    random = np.random.default_rng(7)
    settings = {"logit_bias": dict.fromkeys(range(0, size, 7), 50.0), "presence_penalty": -30.0}
    chain, rows = random_group(random, size, 16, settings)
    for _ in range(3):
        logits = random_block(random, 16, size, faults=0)
        allowed = random.random((16, size)) < share
        allowed[:, 5] = logits[:, 5] > -np.inf
        batch = expect_equal(instruction_sets(), chain, rows, logits, packed(allowed))
        drawn = np.flatnonzero(batch.token_ids >= 0)
        assert allowed[drawn, batch.token_ids[drawn]].all()
        accept_tokens(random, rows, batch)


def test_every_row_has_its_own_mask() -> None:
    size = 700
    random = np.random.default_rng(9)
    chain, rows = random_group(random, size, 24, {"temperature": 0.0})
    logits = np.tile(random.normal(0, 3, size).astype(np.float32), (24, 1))
    order = np.argsort(-logits[0])
    allowed = np.ones((24, size), bool)
    for i in range(24):
        allowed[i, order[:i]] = False
    batch = expect_equal(instruction_sets(), chain, rows, logits, packed(allowed))
    np.testing.assert_array_equal(batch.token_ids, order[:24])
