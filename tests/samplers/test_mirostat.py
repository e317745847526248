from __future__ import annotations

import math

import numpy as np
import pytest

from engine_sampler.arithmetic import distances, log2_64
from engine_sampler.params import SamplingParams, build_chain
from engine_sampler.samplers.mirostat import MIROSTAT_STEPS, Mirostat, SurpriseControl, gap
from engine_sampler.samplers.mirostat_v2 import MirostatV2
from engine_sampler.testing import select

from ..chi_square import assert_drawn_from
from ..reference import NEG_INF, order, softmax
from .drawing import by_position, by_seed, notes_of_a_run
from .mirostat_reference import kept, reference_k, rows_of_all_kinds

MIROSTAT = Mirostat()
BOTH = pytest.mark.parametrize("selector", [MIROSTAT, MirostatV2()], ids=lambda s: s.name)


# --- how many tokens are kept --------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 5, 60, 300, 4000])
def test_k_equals_the_formula_in_natural_logarithms(m: int) -> None:
    rng = np.random.default_rng(m)
    near_an_integer, total = 0, 0
    for tau in rng.uniform(0.2, 8, 25).tolist():
        rows = rows_of_all_kinds(int(tau * 1e6), 6, m)
        y = distances(rows).astype(np.float64)
        counts = kept(MIROSTAT, rows, {"mirostat": 1, "mirostat_tau": tau}).sum(axis=1)
        for row, bits, count in zip(rows, y, counts.tolist(), strict=True):
            k = reference_k(2.0 ** bits[order(row)], 2 * tau, m)
            total += 1
            if k < m and abs(k - round(k)) <= 1e-6 * k:
                near_an_integer += 1
            else:
                assert count == min(max(int(k), 1), m)
    assert near_an_integer <= 0.02 * total


def test_the_kept_tokens_are_the_first_in_order() -> None:
    rows = np.round(rows_of_all_kinds(5, 40, 200))
    for row, mask in zip(rows, kept(MIROSTAT, rows, {"mirostat": 1, "mirostat_tau": 3.0}), strict=True):
        assert set(np.flatnonzero(mask).tolist()) == set(order(row)[: mask.sum()].tolist())


def test_the_size_of_the_vocabulary_counts_and_not_the_number_of_columns() -> None:
    row = rows_of_all_kinds(6, 1, 200)
    wide = np.full((1, 5000), NEG_INF, np.float32)
    wide[:, 1000:1200] = row
    given = {"mirostat": 1, "mirostat_tau": 2.5}
    assert np.array_equal(kept(MIROSTAT, wide, given)[:, 1000:1200], kept(MIROSTAT, row, given, 5000))
    k = reference_k(np.sort(softmax(row[0]))[::-1], 5.0, 5000)
    assert (
        kept(MIROSTAT, wide, given).sum()
        == int(k)
        != int(reference_k(np.sort(softmax(row[0]))[::-1], 5.0, 200))
    )


def test_a_flat_row_keeps_everything_or_one_token() -> None:
    flat = np.zeros((1, 500), np.float32)
    assert kept(MIROSTAT, flat, {"mirostat": 1, "mirostat_tau": 5.0}).sum() == 500  # 2^10 > 500
    assert kept(MIROSTAT, flat, {"mirostat": 1, "mirostat_tau": 4.0}).sum() == 1  # 2^8 < 500


def test_a_slope_of_exactly_one_has_the_limit_of_the_formula() -> None:
    near = gap(np.array([0.0, 1e-9, -1e-9, 1e-5]), 32_000)
    assert near == pytest.approx(1 / math.log(32_000), rel=1e-3)
    edge = 2.0**-10 / math.log(32_000)
    both_sides = gap(np.array([edge * 0.999999999, edge * 1.000000001]), 32_000)
    assert both_sides[0] == pytest.approx(both_sides[1], rel=1e-9)


def test_the_steps_are_the_logarithms_of_neighbouring_ranks() -> None:
    assert [math.log2((i + 2) / (i + 1)) for i in range(99)] == pytest.approx(MIROSTAT_STEPS, rel=1e-15)


# --- what both versions share --------------------------------------------------------------------


@BOTH
def test_draws_follow_the_softmax_of_the_kept_tokens(selector: SurpriseControl) -> None:
    row = np.random.default_rng(7).normal(size=40).astype(np.float32)
    given = {"mirostat": 1 if selector is MIROSTAT else 2, "mirostat_tau": 2.2}
    mask = kept(selector, row[None], given)[0]
    assert 3 < mask.sum() < 40
    expected = softmax(np.where(mask, row, NEG_INF))
    assert_drawn_from(expected, by_seed(selector, row, given))
    assert_drawn_from(expected, by_position(selector, row, given))


@BOTH
def test_the_note_is_the_surprise_of_the_drawn_token_among_the_kept(selector: SurpriseControl) -> None:
    rows = rows_of_all_kinds(8, 50, 300)
    given = {"mirostat": 1 if selector is MIROSTAT else 2, "mirostat_tau": 3.0}
    selection = select(selector, rows, given, seeds=range(50))
    notes = selection.notes
    assert notes is not None
    for row, mask, column, note in zip(
        rows, kept(selector, rows, given), selection.columns, notes, strict=True
    ):
        assert note == pytest.approx(-math.log2(softmax(np.where(mask, row, NEG_INF))[column]), abs=5e-6)


@BOTH
def test_mu_changes_only_by_the_surprise_of_accepted_tokens(selector: SurpriseControl) -> None:
    state = selector.new_state({"mirostat_tau": 4.0, "mirostat_eta": 0.25}, np.array([]))
    assert state.now == 8.0
    selector.accept(state, [11], [6.0])
    assert state.now == 7.5
    selector.accept(state, [12, 13], [None, 2.0])
    assert state.now == 8.0
    selector.accept(state, [14, 15])
    assert state.now == 8.0


@BOTH
def test_rollback_restores_mu_bit_for_bit(selector: SurpriseControl) -> None:
    state = selector.new_state({"mirostat_tau": 4.0, "mirostat_eta": 0.1}, np.array([]))
    seen = []
    for surprise in (0.1, 7.3, None, 3.3, 1e-9, 12.0):
        seen.append(state.now)
        selector.accept(state, [1], [surprise])
    fork = selector.fork(state)
    selector.rollback(fork, 0)
    assert fork.now == state.now
    for n, before in enumerate(reversed(seen), 1):
        again = selector.fork(state)
        selector.rollback(again, n)
        assert again.now == before


@BOTH
def test_the_surprise_settles_at_the_target(selector: SurpriseControl) -> None:
    row = -1.1 * np.log(np.arange(1, 3001))
    given = {"mirostat": 1 if selector is MIROSTAT else 2, "mirostat_tau": 4.0, "mirostat_eta": 0.2}
    surprises = notes_of_a_run(selector, row, given, requests=40, steps=120)
    assert surprises[40:].mean() == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize(("version", "name"), [(1, "mirostat"), (2, "mirostat_v2")])
def test_only_masks_penalties_and_temperature_stay_in_the_chain(version: int, name: str) -> None:
    params = SamplingParams(mirostat=version, top_k=5, top_p=0.5, min_p=0.1, temperature=0.7)
    assert build_chain(params).key == ("temperature", name)


def test_the_logarithm_of_the_vocabulary_of_one_is_not_needed() -> None:
    assert select(MIROSTAT, [[0.5]], {"mirostat": 1}).columns.tolist() == [0]
    assert float(log2_64(1)) == 0.0  # which would divide by zero
