"""The NumPy backend: its fused run is the plain chain, and a fault stays in its row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler.arithmetic import NARROW, RowFault, checked_row
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Chain, Rows, Sampler, Selection, Selector, Truncation, unpack_bitmask
from engine_sampler.params import SamplingParams
from engine_sampler.params.orders import NAMED
from engine_sampler.registry import default_registry
from tests.random_chains import (
    ORDERED,
    ROUNDS,
    expect_fused_equals_plain,
    random_logits,
    random_rows,
    random_settings,
    run_fused,
)

DIST = default_registry().catalogue.selectors["dist"]
SIZES = (1, 2, 31, 33, 257, 1500, 5000)


def given(random: np.random.Generator, size: int, n: int, **settings: Any) -> tuple[Chain, Rows, np.ndarray]:
    """A chain, n rows and their logits; tokens differ enough for truncations to remove some."""
    chain, rows = random_rows(random, SamplingParams(**settings), n, size)
    return chain, rows, random.normal(0, 3, (n, size)).astype(np.float32)


# --- run equals apply and select ------------------------------------------------------------------


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("order", [*NAMED, "any"])
@pytest.mark.parametrize("size", SIZES)
def test_random_chains_of_every_order_run_as_on_full_rows(size: int, order: str) -> None:
    random = np.random.default_rng([size, len(order)])
    for _ in range(8 * ROUNDS):
        settings = random_settings(random, size)
        settings["order"] = random.permutation(ORDERED).tolist() if order == "any" else order
        chain, rows = random_rows(random, SamplingParams(**settings), 6, size)
        expect_fused_equals_plain(chain, rows, random_logits(random, 6, size))


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("size", SIZES)
def test_a_bitmask_removes_tokens_before_anything_else(size: int) -> None:
    random = np.random.default_rng(size)
    for _ in range(20 * ROUNDS):
        chain, rows = random_rows(random, SamplingParams(**random_settings(random, size)), 6, size)
        words = random.integers(-(2**31), 2**31, (6, -(-size // 32)), np.int64).astype(np.int32)
        words[0], words[1, 1:] = -1, 0  # all tokens, few tokens
        logits = random_logits(random, 6, size)
        batch = run_fused(chain, rows, logits, words)
        allowed = [unpack_bitmask(w, size) for w in words]
        for i, token in enumerate(batch.token_ids.tolist()):
            assert token == -1 or allowed[i][token]
            if not (allowed[i] & (logits[i] > -np.inf)).any():
                assert batch.errors[i] == "the grammar leaves no token"
        if all((a & (row > -np.inf)).any() for a, row in zip(allowed, logits, strict=True)):
            expect_fused_equals_plain(chain, rows, logits, words)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"top_k": 5, "temperature": 0.7}, id="few columns are left"),
        pytest.param({"top_k": 1200, "top_p": 0.99}, id="more than narrow are left"),
        pytest.param({"top_k": 1200, "top_p": 0.5, "temperature": 2.0}, id="narrow at the second cut"),
        pytest.param({"top_k": 3000, "temperature": 0.7}, id="more than half are left"),
        pytest.param({"temperature": 0.7, "order": "vllm"}, id="nothing is cut"),
        pytest.param({"min_p": 0.001, "min_keep": 900, "top_k": NARROW}, id="exactly narrow"),
    ],
)
def test_wide_rows_are_narrowed_as_far_as_truncations_go(settings: dict[str, Any]) -> None:
    random = np.random.default_rng(4)
    expect_fused_equals_plain(*given(random, 5000, 12, **settings))


def test_rows_of_one_group_may_narrow_at_different_steps() -> None:
    random = np.random.default_rng(9)
    chain, rows, logits = given(random, 3000, 12, top_p=0.9, min_p=0.05, temperature=0.8)
    logits[::3] /= 1000  # flat: top_p leaves more than half, min_p leaves all
    logits[1::3] *= 3  # peaked: top_p leaves a few
    expect_fused_equals_plain(chain, rows, logits)


class Widths(Sampler):
    """Records the widths of the blocks that it gets."""

    name = "widths"

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        self.seen.append(logits.shape)
        assert rows.ids is None or rows.ids.shape == logits.shape


def test_rows_with_few_survivors_run_together_and_wide_ones_alone() -> None:
    random = np.random.default_rng(1)
    chain, rows, logits = given(random, 5000, 4, top_p=0.95)
    logits[0] = 0.001 * logits[0]
    logits[1:] *= 4
    widths = Widths()
    run_fused(Chain((*chain.samplers, widths), chain.selector), rows, logits)
    (alone, wide), (together, narrow) = sorted(widths.seen)
    assert (alone, together) == (1, 3)
    assert wide > NARROW >= narrow


def test_blocks_shrink_with_their_survivors() -> None:
    random = np.random.default_rng(1)
    chain, rows, logits = given(random, 5000, 4, top_k=1000)
    widths = Widths()
    run_fused(Chain((*chain.samplers, widths, Below(5.0), widths), chain.selector), rows, logits)
    (_, before), (_, after) = widths.seen
    assert before == 1000
    assert 0 < after < 500


# --- faults ---------------------------------------------------------------------------------------


class Below(Truncation):
    """Removes tokens below a logit, possibly all of them."""

    name = "below"

    def __init__(self, logit: float) -> None:
        self.logit = logit

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        return logits >= self.logit


class Adds(Sampler):
    """Adds a number to the best token of rows whose seed is odd."""

    name = "adds"

    def __init__(self, number: float) -> None:
        self.number = number

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        odd = np.flatnonzero(rows.seed % 2 == 1)
        logits[odd, logits[odd].argmax(axis=1)] += self.number


class Raises(Sampler):
    """Fails for rows whose seed is odd."""

    name = "raises"

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        if (rows.seed % 2 == 1).any():
            raise ZeroDivisionError("odd")


class WrongMask(Truncation):
    """Gives one column for every row."""

    name = "wrong_mask"

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        return np.ones((len(logits), 1), bool)


class Chooses(Selector):
    """Chooses the given columns."""

    name = "chooses"

    def __init__(self, selection: Any) -> None:
        self.selection = selection

    def select(self, logits: np.ndarray, rows: Rows) -> Any:
        return self.selection(logits)


BEFORE = {"nothing": {}, "a narrowing cut": {"top_k": 50}, "a wide cut": {"top_k": 1100}}


def run_with(
    part: Sampler | Selector, size: int, **settings: Any
) -> tuple[list[str | None], np.ndarray, Rows]:
    """Errors and tokens of 12 rows in which `part` follows the samplers of `settings`."""
    place = len(settings)
    later = {"min_p": 0.01, "temperature": 0.5}
    chain, rows, logits = given(np.random.default_rng(6), size, 12, **settings, **later)
    if isinstance(part, Selector):
        odd = Chain(chain.samplers, part)
    else:
        odd = Chain((*chain.samplers[:place], part, *chain.samplers[place:]), chain.selector)
    batch = run_fused(odd, rows, logits)
    return batch.errors, batch.token_ids, rows


@pytest.mark.parametrize("size", [40, 2500])
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize(
    ("sampler", "error"),
    [
        (Adds(np.nan), "adds gives nan"),
        (Adds(-np.nan), "adds gives nan"),
        (Adds(np.inf), "adds gives inf"),
        (Raises(), "raises failed: ZeroDivisionError: odd"),
    ],
)
def test_a_sampler_that_spoils_some_rows_is_named_and_the_others_continue(
    sampler: Sampler, error: str, before: str, size: int
) -> None:
    errors, token_ids, rows = run_with(sampler, size, **BEFORE[before])
    odd = rows.seed % 2 == 1
    assert 0 < odd.sum() < len(odd)
    assert errors == [error if guilty else None for guilty in odd]
    harmless = run_with(Adds(0.0), size, **BEFORE[before])[1]
    np.testing.assert_array_equal(token_ids, np.where(odd, -1, harmless))


@pytest.mark.parametrize("size", [40, 2500])
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize(
    ("part", "error"),
    [
        (Below(1e6), "below leaves no token"),
        (WrongMask(), "wrong_mask failed: keep must return a bool array of shape"),
        (Chooses(lambda logits: Selection(logits.argmin(axis=1))), None),
        (
            Chooses(lambda logits: Selection(np.full(len(logits), 10**6))),
            "chooses failed: select must return one column for each row",
        ),
        (
            Chooses(lambda logits: Selection(np.full(len(logits), -1))),
            "chooses failed: select must return one column for each row",
        ),
        (
            Chooses(lambda logits: Selection(np.zeros(len(logits)))),
            "chooses failed: select must return one column for each row",
        ),
        (
            Chooses(lambda logits: Selection(np.zeros((2, 2), int))),
            "chooses failed: select must return one column for each row",
        ),
        (
            Chooses(lambda logits: Selection(np.zeros(len(logits), int), np.zeros(99))),
            "chooses failed: select returned notes of shape (99,)",
        ),
        (Chooses(lambda logits: 1 // 0), "chooses failed: ZeroDivisionError"),
    ],
)
def test_a_part_that_always_fails_is_named_in_every_row(
    part: Sampler | Selector, error: str | None, before: str, size: int
) -> None:
    errors, token_ids, _ = run_with(part, size, **BEFORE[before])
    for text, token in zip(errors, token_ids.tolist(), strict=True):
        if error is None:
            assert (text is None and token >= 0) or text == "chooses chose a removed token"
        else:
            assert token == -1
            assert text is not None
            assert text.startswith(error)


@pytest.mark.parametrize("size", [40, 2500])
@pytest.mark.parametrize(
    ("settings", "guilty"),
    [
        ({"allowed_token_ids": [3]}, "allowed_token_ids"),
        ({"logit_bias": {5: -np.inf}}, "logit_bias"),
        ({"bad_words": [5]}, "bad_words"),
        ({"bad_words": [5], "allowed_token_ids": [5], "top_k": 1}, "bad_words"),
        ({}, "the grammar"),
    ],
)
def test_an_edit_that_removes_all_tokens_of_a_grammar_is_named(
    settings: dict[str, Any], guilty: str, size: int
) -> None:
    later = {"temperature": 0.8, "dynatemp_range": 0.3, "top_p": 0.9, "min_p": 0.1, "infill": True}
    chain, rows, logits = given(np.random.default_rng(3), size, 3, **settings, **later)
    words = np.zeros((3, -(-size // 32)), np.int32)
    words[:, 0] = 1 << 5 if settings else 0
    batch = run_fused(chain, rows, logits, words)
    assert batch.errors == [f"{guilty} leaves no token"] * 3
    assert batch.token_ids.tolist() == [-1] * 3


def test_faulty_rows_of_logits_do_not_affect_their_neighbours() -> None:
    for size in (40, 2500):
        chain, rows, logits = given(np.random.default_rng(3), size, 8, top_k=20, top_p=0.9)
        expected = run_fused(chain, rows, logits).token_ids
        spoiled = logits.copy()
        spoiled[1, 7], spoiled[3, 8], spoiled[5] = np.nan, np.inf, -np.inf
        batch = run_fused(chain, rows, spoiled)
        healthy = [0, 2, 4, 6, 7]
        np.testing.assert_array_equal(batch.token_ids[healthy], expected[healthy])
        assert [i for i, error in enumerate(batch.errors) if error] == [1, 3, 5]


# --- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ([1.0, np.nan], "the row's greatest logit is nan"),
        ([-np.inf, np.nan], "the row's greatest logit is nan"),
        ([np.inf, 0.0], "the row's greatest logit is inf"),
        ([2.0**101, 0.0], r"the row's greatest logit is .*; allowed is at most 2\^100"),
        ([-np.inf, -np.inf], "every logit of the row is -inf"),
        ([-np.inf, -(2.0**101)], "every logit of the row is -inf"),
    ],
)
def test_rows_that_cannot_give_a_token_are_refused(row: list[float], error: str) -> None:
    with pytest.raises(RowFault, match=error):
        checked_row(np.array(row, np.float32))


def test_logits_far_below_everything_read_as_removed() -> None:
    row = np.array([2.0**100, -(2.0**100), -(2.0**101), -np.inf], np.float32)
    given = row.copy()
    np.testing.assert_array_equal(checked_row(row), [2.0**100, -(2.0**100), -np.inf, -np.inf])
    np.testing.assert_array_equal(row, given)


def test_a_row_without_such_logits_is_not_copied() -> None:
    for values in ([1.0, 2.0], [1.0, -np.inf]):
        row = np.array(values, np.float32)
        assert checked_row(row) is row


@pytest.mark.parametrize("size", [1, 31, 32, 33, 100])
def test_bit_j_of_word_i_is_token_32_i_plus_j(size: int) -> None:
    words = np.random.default_rng(size).integers(-(2**31), 2**31, -(-size // 32)).astype(np.int32)
    expected = [(int(words[t // 32]) >> (t % 32)) & 1 for t in range(size)]
    assert unpack_bitmask(words, size).tolist() == expected
    assert unpack_bitmask(np.repeat(words, 2)[::2], size).tolist() == expected


def test_the_plan_is_the_chain_and_every_device_is_supported() -> None:
    backend = NumpyBackend()
    chain = Chain((), DIST)
    assert backend.compile(chain) is chain
    assert backend.score("cpu") == backend.score("cuda:0") > 0
    assert all(map(backend.supports, default_registry().catalogue.samplers.values()))


def test_apply_and_select_are_the_two_halves_of_a_run() -> None:
    random = np.random.default_rng(2)
    chain, rows, logits = given(random, 300, 20, top_k=20, temperature=0.7, mirostat=0)
    values = logits.copy()
    backend = NumpyBackend()
    backend.apply(chain, values, rows)
    columns = backend.select(chain, values, rows).columns
    np.testing.assert_array_equal(run_fused(chain, rows, logits).token_ids, columns)
