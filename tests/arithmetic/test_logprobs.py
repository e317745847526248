"""Logprobs compared with float64, including ranks, ties and rows of unequal length."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engine_sampler import RequestLimits, SamplingParams, Scheduler, logprobs
from engine_sampler.arithmetic import Logprobs, RowLogprobs, gather, log_sum_exp, row_logprobs
from engine_sampler.registry import default_registry
from engine_sampler.testing.cases import KINDS
from tests.reference import order, softmax

SIZES = (1, 2, 31, 300, 1024, 1025, 5000)


def rows_of_every_kind(size: int) -> np.ndarray:
    random = np.random.default_rng(size)
    kinds = [make(random, size) for name, make in KINDS.items() if name not in ("wide", "extreme")]
    return np.stack(kinds).astype(np.float32)


def exact(row: np.ndarray) -> np.ndarray:
    """Log-probabilities in float64."""
    shifted = row.astype(np.float64) - row.max()
    return shifted - math.log(math.fsum(np.exp(shifted)))


def test_a_table_is_trimmed_to_its_longest_row() -> None:
    table = Logprobs.empty(3, 9)
    assert table.trimmed().token_ids.shape == (3, 1)
    for row, top_n in enumerate((4, 0, 6)):
        table.fill(row, row_logprobs(np.arange(7, dtype=np.float32), 2, top_n))
    assert table.trimmed().token_ids.shape == table.trimmed().logprobs.shape == (3, 7)
    table.clear(np.array([2]))
    assert table.trimmed().token_ids.shape == (3, 5)


# --- one row --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("top_n", [0, 1, 5, 40, -1])
def test_values_and_order_are_those_of_a_float64_softmax(size: int, top_n: int) -> None:
    for i, row in enumerate(rows_of_every_kind(size)):
        token = i * 7 % size
        entry = row_logprobs(row, token, top_n)
        k = size if top_n < 0 else min(top_n, size)
        assert entry.token_ids.shape == entry.logprobs.shape == (1 + k,)
        assert entry.token_ids[0] == token
        best = order(row)[:k]
        np.testing.assert_array_equal(entry.token_ids[1 : 1 + len(best)], best)
        np.testing.assert_allclose(entry.logprobs, exact(row)[entry.token_ids], rtol=1e-6, atol=1e-6)
        assert entry.logprobs.dtype == np.float32


@pytest.mark.parametrize("size", SIZES)
def test_a_rank_is_the_position_in_order_and_ties_go_to_the_lower_id(size: int) -> None:
    for row in rows_of_every_kind(size):
        ranked = order(row).tolist()
        for token in {0, size - 1, size // 2, ranked[0], ranked[-1]}:
            if row[token] > -np.inf:
                assert row_logprobs(row, token, 0).rank == ranked.index(token) + 1


def test_a_removed_token_is_ranked_after_all_others() -> None:
    row = np.array([1.0, -np.inf, 2.0, -np.inf], np.float32)
    entry = row_logprobs(row, 1, 2)
    assert entry.rank == 3
    assert entry.logprobs[0] == -np.inf
    assert entry.token_ids.tolist() == [1, 2, 0]


def test_signed_zeros_tie() -> None:
    assert [row_logprobs(np.array([-0.0, 0.0], np.float32), t, 2).rank for t in (0, 1)] == [1, 2]


@pytest.mark.parametrize("top_n", [0, 3, -1])
def test_a_subset_of_columns_gives_the_same_as_the_whole_row(top_n: int) -> None:
    for row in rows_of_every_kind(300):
        ids = np.flatnonzero((row > -np.inf) | (np.arange(300) % 3 == 0))
        some = row_logprobs(row[ids], int(ids[-1]), top_n, ids)
        whole = row_logprobs(row, int(ids[-1]), top_n)
        k = len(some.token_ids)
        np.testing.assert_allclose(some.logprobs, whole.logprobs[:k], rtol=1e-6)
        assert some.rank == whole.rank
        finite = some.logprobs > -np.inf
        np.testing.assert_array_equal(some.token_ids[finite], whole.token_ids[:k][finite])


@pytest.mark.parametrize("token", [0, 4, 9])
def test_a_token_without_a_column_is_ranked_last_with_minus_infinity(token: int) -> None:
    entry = row_logprobs(np.array([1.0, 3.0], np.float32), token, 1, np.array([2, 7]))
    assert entry.token_ids.tolist() == [token, 7]
    assert entry.logprobs[0] == -np.inf
    assert entry.rank == 3


def test_logits_at_the_limits_of_float32_do_not_overflow() -> None:
    greatest = np.finfo(np.float32).max
    entry = row_logprobs(np.array([greatest, -greatest], np.float32), 1, -1)
    assert entry.logprobs.tolist() == [-np.inf, 0.0, -np.inf]
    assert log_sum_exp(np.array([-greatest, -greatest], np.float32)) == pytest.approx(-greatest)


# --- rows together --------------------------------------------------------------------------------


def test_entries_of_unequal_length_are_padded() -> None:
    row = np.array([0.0, 1.0, 2.0], np.float32)
    table = gather([row_logprobs(row, 1, 2), None, row_logprobs(row, 0, 0)])
    assert table.token_ids.tolist() == [[1, 2, 1], [-1, -1, -1], [0, -1, -1]]
    assert np.isnan(table.logprobs).tolist() == [[False] * 3, [True] * 3, [False, True, True]]
    assert table.ranks.tolist() == [2, 0, 3]
    assert (table.token_ids.dtype, table.logprobs.dtype, table.ranks.dtype) == (
        np.int64,
        np.float32,
        np.int64,
    )


@pytest.mark.parametrize("entries", [[], [None, None]])
def test_no_entries_give_an_empty_table(entries: list[RowLogprobs | None]) -> None:
    table = gather(entries)
    assert table.token_ids.shape == table.logprobs.shape == (len(entries), 1)
    assert table.ranks.tolist() == [0] * len(entries)


# --- logprobs() -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [31, 5000])
@pytest.mark.parametrize("top_n", [0, 4, -1])
def test_the_tokens_of_a_prompt_get_their_logprobs(size: int, top_n: int) -> None:
    random = np.random.default_rng(3)
    logits = random.normal(0, 3, (6, size)).astype(np.float32)
    prompt = random.integers(0, size, 6)
    table = logprobs(logits, prompt, top_n)
    assert table.token_ids.shape == (6, 1 + (size if top_n < 0 else top_n))
    np.testing.assert_array_equal(table.token_ids[:, 0], prompt)
    for i, row in enumerate(logits):
        np.testing.assert_allclose(table.logprobs[i], exact(row)[table.token_ids[i]], rtol=1e-5, atol=1e-6)
        assert table.ranks[i] == order(row).tolist().index(prompt[i]) + 1


def test_float16_rows_are_widened_exactly() -> None:
    half = np.random.default_rng(3).normal(0, 3, (4, 50)).astype(np.float16)
    np.testing.assert_array_equal(
        logprobs(half, [1, 2, 3, 4], 5).logprobs, logprobs(half.astype(np.float32), [1, 2, 3, 4], 5).logprobs
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("top_n", [0, 2, -1])
def test_faulty_rows_give_nan_and_do_not_affect_the_others(value: float, top_n: int) -> None:
    logits = np.zeros((3, 2000), np.float32)
    logits[0, 5], logits[1] = value, -np.inf
    table = logprobs(logits, [0, 0, 0], top_n)
    assert np.isnan(table.logprobs[:2, 0]).all()
    np.testing.assert_allclose(table.logprobs[2], -np.log(2000), rtol=1e-6)


def test_no_rows_give_no_logprobs() -> None:
    assert logprobs(np.zeros((0, 5), np.float32), [], 2).ranks.shape == (0,)


@pytest.mark.parametrize(
    ("token_ids", "top_n", "error"),
    [
        ([0], 0, r"token_ids have shape \(1,\); allowed is \[2\], one per row"),
        ([[0], [1]], 0, r"token_ids have shape \(2, 1\)"),
        ([0, 5], 0, r"token_ids must lie in 0\.\.4"),
        ([-1, 0], 0, r"token_ids must lie in 0\.\.4"),
        ([0, 1], -2, "top_n=-2 is not allowed: -1 for all, or at least 0"),
    ],
)
def test_wrong_arguments_are_refused(token_ids: Any, top_n: int, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        logprobs(np.zeros((2, 5), np.float32), token_ids, top_n)


# --- in a step ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [50, 5000])
@pytest.mark.parametrize("top_n", [0, 3, -1])
def test_a_step_reports_the_same_as_logprobs(size: int, top_n: int) -> None:
    scheduler = Scheduler(size, limits=RequestLimits(logprobs=None))
    for seed in range(4):
        scheduler.add(SamplingParams(logprobs=top_n, seed=seed, temperature=0.7, top_k=5))
    logits = np.random.default_rng(0).normal(0, 3, (4, size)).astype(np.float32)
    result = scheduler.step(logits)
    expected = logprobs(logits, result.token_ids, top_n)
    for name in ("token_ids", "ranks"):
        np.testing.assert_array_equal(getattr(result.logprobs, name), getattr(expected, name))
    np.testing.assert_allclose(result.logprobs.logprobs, expected.logprobs, rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", ["peaked", "flat", "equal", "one left", "huge"])
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_logprobs_of_every_backend_are_within_1e_5_of_float64(backend: str, kind: str) -> None:
    if default_registry().catalogue.backends[backend].score("cpu") == 0:
        pytest.skip(f"{backend} cannot be used here")
    random = np.random.default_rng(1)
    row = {
        "peaked": np.append(random.normal(0, 2.2, 30_000), [18.0, 17.0]),
        "flat": random.normal(0, 0.3, 131_072),
        "equal": np.zeros(70_001),
        "one left": np.append(np.full(999, -np.inf), 2.0),
        "huge": random.normal(0, 1, 3000) * 1e6,
    }[kind].astype(np.float32)
    scheduler = Scheduler(len(row), backend=backend)
    scheduler.add(SamplingParams(logprobs=0, seed=1))
    result = scheduler.step(row[None])
    exact = row.astype(np.float64)
    exact -= exact.max() + np.log(np.exp(exact - exact.max()).sum())
    assert result.logprobs.logprobs[0, 0] == pytest.approx(exact[result.token_ids[0]], rel=1e-7, abs=1e-5)


def test_processed_logprobs_are_those_of_the_survivors() -> None:
    scheduler = Scheduler(3000, limits=RequestLimits(logprobs=None))
    params = SamplingParams(logprobs=-1, logprobs_mode="processed", top_k=4, temperature=0.5, seed=1)
    scheduler.add(params)
    logits = np.random.default_rng(0).normal(0, 3, (1, 3000)).astype(np.float32)
    table = scheduler.step(logits).logprobs
    best = order(logits[0])[:4]
    assert table.token_ids[0, 1:].tolist() == best.tolist()
    np.testing.assert_allclose(table.logprobs[0, 1:], np.log(softmax(logits[0, best] * 2)), rtol=1e-5)


def test_joined_logprobs_have_the_rows_of_all_parts() -> None:
    row = np.array([0.0, 2.0, 1.0], np.float32)
    parts = [logprobs(np.tile(row, (rows, 1)), [1] * rows, top_n=n) for rows, n in ((1, 0), (2, 2), (1, 3))]
    joined = Logprobs.joined(parts)
    expected = [part.row(r) for part in parts for r in range(len(part.ranks))]
    assert len(joined.ranks) == len(expected) == 4
    for i, entry in enumerate(expected):
        assert joined.row(i).token_ids.tolist() == entry.token_ids.tolist()
        assert joined.row(i).logprobs.tolist() == entry.logprobs.tolist()
        assert joined.row(i).rank == entry.rank
