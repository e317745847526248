"""Native is NumPy, bit for bit: every sampler, every selector, random chains, every instruction set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from engine_sampler.arithmetic import draw64, scale_draw
from engine_sampler.backends.native import NativeBackend
from engine_sampler.contract import Chain, Rows
from engine_sampler.params import SamplingParams
from engine_sampler.params.orders import NAMED
from engine_sampler.requests.history import History
from tests.native.comparing import (
    accept_tokens,
    expect_equal,
    group_of,
    instruction_sets,
    random_bitmask,
    random_block,
    random_group,
    times,
)
from tests.random_chains import ORDERED, ROUNDS, SAMPLERS, SELECTORS, Random, random_settings

GROUPS: Mapping[int, int] = {1: 3, 5: 5, 100: 13, 257: 10, 600: 8, 3000: 3}
"""Random chains by vocabulary size, each for `REQUESTS` requests and `STEPS` steps."""
REQUESTS, STEPS, WAYS = 80, 4, 2
PARTS = 3

SLOW = ("infill",)
"""Samplers that take NumPy long for a wide row are tested on few."""


def run_steps(
    random: Random, size: int, n: int, steps: int, settings: Mapping[str, Any], masks: bool = False
) -> int:
    """Draw for n requests, step by step, on all backends; returns how many tokens NumPy drew."""
    n = n if ROUNDS else max(2, n // 4)
    chain, rows = random_group(random, size, n, settings)
    drawn = 0
    for _ in range(steps):
        logits = random_block(random, n, size, faults=0.03 if masks else 0.004)
        bitmask = random_bitmask(random, n, size) if masks else None
        batch = expect_equal(instruction_sets(), chain, rows, logits, bitmask)
        accept_tokens(random, rows, batch)
        drawn += int((batch.token_ids >= 0).sum())
    return drawn


def groups_of(size: int) -> int:
    """The number of random chains; more if there are fewer instruction sets to test."""
    return -(-GROUPS[size] * 4 // len(instruction_sets()))


def test_all_parts_together_compare_a_hundred_thousand_draws() -> None:
    rows = sum(map(groups_of, GROUPS)) * REQUESTS * STEPS
    assert rows * WAYS * len(instruction_sets()) >= 100_000


def test_the_best_instruction_set_of_this_machine_is_compared() -> None:
    assert NativeBackend().target in instruction_sets()


@pytest.mark.quick_share(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("size", GROUPS)
def test_random_chains_give_the_tokens_notes_and_rows_of_numpy(size: int, part: int) -> None:
    drawn, numbers = 0, range(part, times(groups_of(size)), PARTS)
    for number in numbers:
        random = np.random.default_rng([size, number])
        without = SLOW if size > 300 or number % 5 else ()
        settings = random_settings(random, size, without=without)
        drawn += run_steps(random, size, REQUESTS, STEPS, settings)
    assert not ROUNDS or drawn > len(numbers) * REQUESTS * STEPS / 3


PENALTIES = {"repetition_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": -0.2}
WINDOWS: tuple[Mapping[str, Any], ...] = (
    {},
    {"penalty_scope": "all"},
    {"penalty_last_n": 700},
    {"penalty_last_n": 300, "repetition_penalty_range": 40},
    {"repetition_penalty_range": 600, "repetition_penalty_slope": 0.7},
    {"frequency_penalty": 0.0, "presence_penalty": 0.0},
    {"penalty_last_n": 300, "repetition_penalty_range": 40, "penalty_decay_range": 500},
    {"penalty_last_n": 0, "penalty_decay_range": 1500, "penalty_scope": "all", "penalize_nl": False},
    {"penalty_last_n": 200, "penalty_decay_range": 9, "repetition_penalty_range": -1},
    {"penalize_nl": False},
)
"""Penalties whose windows contain each other, overlap, or are alone."""


@pytest.mark.parametrize("number", range(len(WINDOWS)))
def test_penalties_of_long_histories_agree_beside_other_edits(number: int) -> None:
    size, length = 3000, 2000
    random = np.random.default_rng([7, number])
    biases = {int(token): float(random.normal()) for token in random.integers(0, size, 150)}
    settings = PENALTIES | WINDOWS[number] | {"logit_bias": biases, "dry_multiplier": 0.8, "top_k": 40}
    histories = [
        History(*np.split(random.integers(0, size // 2, length), [part])) for part in (0, 900, length)
    ]
    chain, rows = group_of(SamplingParams(**settings), histories, size)
    for masks in (False, True):
        logits = random_block(random, 3, size, faults=0)
        bitmask = random_bitmask(random, 3, size) if masks else None
        batch = expect_equal(instruction_sets(), chain, rows, logits, bitmask)
        accept_tokens(random, rows, batch)


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("order", [*NAMED, "any"])
@pytest.mark.parametrize("size", [5, 300])
def test_chains_of_every_order_agree(size: int, order: str) -> None:
    for number in range(times(6)):
        random = np.random.default_rng([size, len(order), number])
        settings = random_settings(random, size, without=() if size < 100 else SLOW)
        settings["order"] = random.permutation(ORDERED).tolist() if order == "any" else order
        run_steps(random, size, 24, 2, settings)


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_agrees_alone(sampler: str) -> None:
    for size, n in ((1, 8), (5, 24), (100, 40), (257, 40), (600, 16), (3000, 8)):
        for number in range(times(2)):
            random = np.random.default_rng([size, number])
            settings = {**SAMPLERS[sampler](random, size), **SELECTORS[("dist", "greedy")[number % 2]]}
            run_steps(random, size, n, 2, settings)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("selector", SELECTORS)
def test_every_selector_agrees_alone_and_after_a_cut(selector: str) -> None:
    for size, n in ((1, 8), (5, 24), (100, 40), (257, 40), (600, 40), (3000, 24)):
        for settings in ({}, {"top_k": 40, "min_p": 0.01}, {"repetition_penalty": 1.3, "temperature": 0.8}):
            random = np.random.default_rng(size)
            run_steps(random, size, n, times(2), settings | SELECTORS[selector])


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("size", [20_000, 131_072])
def test_samplers_agree_on_the_vocabularies_of_models(size: int, sampler: str) -> None:
    random = np.random.default_rng([size, len(sampler)])
    if sampler in SLOW:
        settings = SAMPLERS[sampler](random, size) | {"top_k": 300}
    else:
        settings = dict(SAMPLERS[sampler](random, size))
    selector = list(SELECTORS)[int(random.integers(len(SELECTORS)))]
    run_steps(random, size, 4 if size < 100_000 else 2, 1, settings | SELECTORS[selector])


def test_whole_chains_agree_on_the_vocabularies_of_models() -> None:
    for size, n, groups in ((20_000, 12, 6), (131_072, 3, 3)):
        for number in range(times(groups)):
            random = np.random.default_rng([size, number])
            run_steps(random, size, n, 1, random_settings(random, size, without=SLOW), masks=number % 3 == 2)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("size", [1, 5, 31, 100, 257, 600, 3000])
def test_choices_under_a_grammar_mask_agree(size: int) -> None:
    for number in range(times(6)):
        random = np.random.default_rng([size, number, 1])
        settings = random_settings(random, size, without=() if size < 100 else SLOW)
        run_steps(random, size, 16, 2, settings, masks=True)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("size", [63, 64, 65, 127, 128, 129, 511, 512, 513, 1023, 1024, 1025])
def test_sizes_around_powers_of_two_agree(size: int) -> None:
    for number in range(times(4)):
        random = np.random.default_rng([size, number, 2])
        run_steps(random, size, 24, 1, random_settings(random, size, without=SLOW))


@pytest.mark.parametrize("size", [64, 1000, 5000])
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.0}, {"top_k": 1}, {"top_k": 3}, {"min_p": 1.0}])
def test_a_zero_keeps_its_sign(size: int, settings: Mapping[str, Any]) -> None:
    random = np.random.default_rng(size)
    chain, rows = random_group(random, size, 12, settings)
    logits = random.choice(np.array([-0.0, 0.0], np.float32), (12, size))
    expect_equal(instruction_sets(), chain, rows, logits)


@pytest.mark.parametrize(
    "settings", [{"top_k": 2}, {"top_k": 3}, {"mirostat": 1}, {"mirostat": 2}, {"top_h": 0.5}]
)
@pytest.mark.parametrize("bias", [-np.inf, -9.0])
def test_a_token_that_an_edit_lowers_does_not_count_among_the_first(
    settings: Mapping[str, Any], bias: float
) -> None:
    random = np.random.default_rng(0)
    chain, rows = random_group(random, 343, 40, {**settings, "logit_bias": {0: bias, 1: bias, 130: bias}})
    logits = np.full((40, 343), -np.inf, np.float32)
    logits[:, [0, 79, 130, 270]] = random.normal(0, 3, (40, 4))
    expect_equal(instruction_sets(), chain, rows, logits)


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon_cutoff": 1e-10},
        {"eta_cutoff": 1e-10},
        {"top_a": 1e-9},
        {"order": ["xtc"], "xtc_probability": 1.0, "xtc_threshold": 1e-10},
    ],
    ids=lambda settings: next(name for name in settings if name != "order"),
)
def test_a_token_whose_weight_is_rounded_up_to_the_least_one_stays(settings: Mapping[str, Any]) -> None:
    chain, rows = random_group(np.random.default_rng(0), 600, 8, settings)
    logits = np.tile(np.arange(600, dtype=np.float32) * np.float32(-0.08), (8, 1))
    expect_equal(instruction_sets(), chain, rows, logits)


# --- where one unit of weight, one value or one token decides: hardly ever in random rows -----------

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
