"""A row that cannot give a token fails with NumPy's message, and does not affect its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from engine_sampler.backends.library.header import contract
from engine_sampler.contract import Chain, Rows, Sampler, Truncation
from tests.native.comparing import NUMPY, both_ways, expect_equal, instruction_sets, random_group, run

SIZES = (5, 64, 300, 3000)
NUMBERS = {"nan": np.nan, "-nan": -np.nan, "inf": np.inf, "too great": 2.0**101, "greatest": 3.4e38}
CHAINS: Mapping[str, Mapping[str, Any]] = {
    "nothing": {},
    "greedy": {"temperature": 0.0},
    "cuts": {"top_k": 20, "top_p": 0.9, "temperature": 0.7},
    "edits": {"repetition_penalty": 1.3, "logit_bias": {1: 2.0}, "dry_multiplier": 0.8},
    "everything": {"typical_p": 0.9, "xtc_probability": 1.0, "mirostat": 2, "smoothing_factor": 0.3},
}


def normal(seed: int, n: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (n, size)).astype(np.float32)


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("chain_name", CHAINS)
@pytest.mark.parametrize("size", SIZES)
def test_one_bad_logit_anywhere_ends_its_row_only(size: int, chain_name: str) -> None:
    places = sorted({0, size // 2, size - 1})
    chain, rows = random_group(np.random.default_rng(size), size, 2 * len(places) + 1, CHAINS[chain_name])
    logits = normal(size, len(rows), size)
    healthy = run(NUMPY, chain, rows, logits)
    for name, number in NUMBERS.items():
        for i, place in enumerate(places):
            logits[2 * i + 1, place] = number
        batch = expect_equal(instruction_sets(), chain, rows, logits)
        assert [error is not None for error in batch.errors[1::2]] == [True] * len(places), name
        np.testing.assert_array_equal(batch.token_ids[::2], healthy.token_ids[::2], name)


@pytest.mark.parametrize("chain_name", CHAINS)
@pytest.mark.parametrize("size", SIZES)
def test_rows_without_a_token_are_refused(size: int, chain_name: str) -> None:
    chain, rows = random_group(np.random.default_rng(1), size, 5, CHAINS[chain_name])
    logits = normal(2, 5, size)
    logits[1], logits[3] = -np.inf, -(2.0**110)
    batch = expect_equal(instruction_sets(), chain, rows, logits)
    assert [batch.errors[i] for i in (1, 3)] == ["every logit of the row is -inf"] * 2
    assert [batch.errors[i] for i in (0, 2, 4)] == [None] * 3


@pytest.mark.quick_share(4)
@pytest.mark.parametrize(
    "settings",
    [
        {"allowed_token_ids": [3], "bad_words": [[3]]},
        {"allowed_token_ids": [3], "logit_bias": {3: -np.inf}},
        {"allowed_token_ids": [3], "no_repeat_ngram_size": 1},
        {"allowed_token_ids": [0], "ignore_eos": True},
        {"logit_bias": dict.fromkeys(range(5), 1e38), "temperature": 0.02, "smoothing_factor": 1e6},
        {"repetition_penalty": 1e-30, "smoothing_factor": 1e6, "temperature": 0.01},
    ],
)
@pytest.mark.parametrize("size", SIZES)
def test_settings_that_leave_no_token_or_overflow_end_alike(size: int, settings: Mapping[str, Any]) -> None:
    chain, rows = random_group(np.random.default_rng(1), size, 12, settings)
    words = np.full((12, -(-size // 32)), -1, np.int32)
    words[::3] = 0
    for bitmask in (None, words):
        expect_equal(instruction_sets(), chain, rows, normal(3, 12, size), bitmask)


@pytest.mark.quick_share(6)
@pytest.mark.parametrize(
    "settings",
    [
        {"min_tokens": 9, "stop_token_ids": [3]},
        {"bad_words": [[3]]},
        {"logit_bias": {3: -np.inf}},
        {"logit_bias": {3: -3e38}},
    ],
)
@pytest.mark.parametrize("chain_name", CHAINS)
@pytest.mark.parametrize("size", SIZES)
def test_tokens_removed_by_a_finite_number_do_not_return_when_the_others_are_lowered(
    size: int, chain_name: str, settings: Mapping[str, Any]
) -> None:
    chain, rows = random_group(np.random.default_rng(4), size, 6, {**CHAINS[chain_name], **settings})
    logits = np.full((6, size), -1e38, np.float32)
    logits[:, 3] = 3.0
    logits[::2, -1] = 1.0
    expect_equal(instruction_sets(), chain, rows, logits)


# --- third parties ------------------------------------------------------------------------------


def odd(rows: Rows) -> np.ndarray:
    """bool [n]: the rows for which a part fails."""
    return rows.seed % 2 == 1


class Raises(Sampler):
    name = "raises"

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        if odd(rows).any():
            raise ZeroDivisionError("odd")


class Adds(Sampler):
    """Adds a number to the best token of odd rows."""

    name = "adds"

    def __init__(self, number: float) -> None:
        self.number = number

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        which = np.flatnonzero(odd(rows))
        logits[which, logits[which].argmax(axis=1)] += np.float32(self.number)


class Empties(Truncation):
    name = "empties"

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        return np.broadcast_to(~odd(rows)[:, None], logits.shape).copy()


@contract().callback("es_row_function")
def _refuse_odd(row: Any, logits: Any, ids: Any, n: int, state: Any) -> int:
    if row.seed % 2 == 0:
        for i in range(n):
            logits[i] = logits[i] * 0.5
    return int(row.seed % 2)


class InC(Sampler):
    """Halves logits, with a row function that fails where `apply` raises."""

    name = "in_c"
    row_function = _refuse_odd

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        if odd(rows).any():
            raise ArithmeticError("odd")
        logits *= np.float32(0.5)


PARTS: Mapping[str, Callable[[], Sampler]] = {
    "raises": Raises,
    "nan": lambda: Adds(np.nan),
    "inf": lambda: Adds(np.inf),
    "a number": lambda: Adds(2.0),
    "empties": Empties,
    "in C": InC,
}
BEFORE: Mapping[str, Mapping[str, Any]] = {
    "nothing": {},
    "a narrow cut": {"top_k": 20},
    "a wide cut": {"top_k": 1500},
    "an edit": {"logit_bias": {2: 1.0}},
}


@pytest.mark.quick_share(6)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("size", [40, 2500])
def test_a_third_partys_sampler_fails_alike_in_the_middle_of_a_chain(
    size: int, part: str, before: str
) -> None:
    later = {"min_p": 0.01, "temperature": 0.5, "repetition_penalty": 1.2, "order": "mlx"}
    chain, rows = random_group(np.random.default_rng(6), size, 12, BEFORE[before] | later)
    place = len(BEFORE[before])
    between = Chain((*chain.samplers[:place], PARTS[part](), *chain.samplers[place:]), chain.selector)
    batch = expect_equal(instruction_sets(), between, rows, normal(7, 12, size))
    guilty = [part != "a number" and seed % 2 == 1 for seed in rows.seed.tolist()]
    assert [error is not None for error in batch.errors] == guilty
    assert any(guilty) == (part != "a number")


class Interrupts(Sampler):
    name = "interrupts"

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        raise KeyboardInterrupt


def test_an_interrupt_of_a_sampler_interrupts_the_step() -> None:
    chain, rows = random_group(np.random.default_rng(8), 50, 4, {"top_k": 5})
    interrupted = Chain((*chain.samplers, Interrupts()), chain.selector)
    for backend in instruction_sets().values():
        with pytest.raises(KeyboardInterrupt):
            list(both_ways(backend, interrupted, rows, normal(9, 4, 50)))
