from __future__ import annotations

import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.adaptive_p import AdaptiveP, _reshape, corrected_adaptive_target
from engine_sampler.testing import make_rows, select

from ..chi_square import assert_drawn_from
from ..reference import NEG_INF, softmax
from .drawing import by_position, by_seed, notes_of_a_run

ADAPTIVE_P = AdaptiveP()


def plain_row(seed: int = 0, m: int = 12) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=m) * 1.5).astype(np.float32)


def reference(row: np.ndarray, aim: float) -> np.ndarray:
    """The distribution that tokens are drawn from, in float64 with libm."""
    d = np.abs(softmax(row) - aim) / 0.3
    return softmax(np.where(row > NEG_INF, 5 - 10 * d**2 / (1 + d), NEG_INF))


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("target", [0.0, 0.15, 0.4, 1.0])
def test_draws_follow_the_reshaped_distribution(target: float) -> None:
    row = plain_row()
    row[3] = NEG_INF
    given = {"adaptive_target": target}
    assert_drawn_from(reference(row, target), by_seed(ADAPTIVE_P, row, given))
    assert_drawn_from(reference(row, target), by_position(ADAPTIVE_P, row, given))


def test_the_new_logit_peaks_at_the_target_and_falls_off_on_both_sides() -> None:
    aim = np.array(0.4)
    assert _reshape(np.array([0.4]), aim).tolist() == [5.0]
    assert _reshape(np.array([0.1, 0.7]), aim) == pytest.approx(
        [0.0, 0.0], abs=1e-6
    )  # one width away: 5 − 10/2
    assert _reshape(np.array([1.0]), aim) == pytest.approx([5 - 40 / 3])  # two widths


def test_the_note_is_the_probability_before_the_reshaping() -> None:
    rows = np.stack([plain_row(seed, 200) for seed in range(30)])
    selection = select(ADAPTIVE_P, rows, {"adaptive_target": 0.1}, seeds=range(30))
    assert selection.notes is not None
    expected = [softmax(row)[column] for row, column in zip(rows, selection.columns, strict=True)]
    assert selection.notes == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_the_average_decays_as_defined() -> None:
    state = ADAPTIVE_P.new_state({"adaptive_target": 0.3, "adaptive_decay": 0.5}, np.array([]))
    assert state.now == pytest.approx(0.3)
    ADAPTIVE_P.accept(state, [7], [0.9])
    assert state.now == pytest.approx((0.9 + 0.5 * 0.6) / (1 + 0.5 * 2))
    before = state.now
    ADAPTIVE_P.accept(state, [8, 9], [None, None])
    ADAPTIVE_P.accept(state, [10])
    assert state.now == before


def test_rollback_restores_the_average_bit_for_bit() -> None:
    state = ADAPTIVE_P.new_state({"adaptive_target": 0.3, "adaptive_decay": 0.9}, np.array([]))
    seen = []
    for p in (0.9, 1e-7, None, 0.33, 0.5):
        seen.append(state.values[-1])
        ADAPTIVE_P.accept(state, [1], [p])
    for n, before in enumerate(reversed(seen), 1):
        fork = ADAPTIVE_P.fork(state)
        ADAPTIVE_P.rollback(fork, n)
        assert fork.values[-1] == before
    assert len(state.values) == len(seen) + 1


@pytest.mark.parametrize(("chosen", "aim"), [(0.9, 0.24), (0.0, 0.33), (0.3, 0.3)])
def test_the_target_is_corrected_for_past_choices(chosen: float, aim: float) -> None:
    rows = make_rows(ADAPTIVE_P, [{"adaptive_target": 0.3}], 10)
    ADAPTIVE_P.accept(rows.states[0], [1], [chosen])
    assert corrected_adaptive_target(rows) == pytest.approx([aim])


def test_the_corrected_target_is_a_probability() -> None:
    params = [{"adaptive_target": t, "adaptive_decay": 0.0} for t in (0.1, 0.9)]
    rows = make_rows(ADAPTIVE_P, params, 10)
    for state, chosen in zip(rows.states, (1.0, 0.0), strict=True):
        ADAPTIVE_P.accept(state, [1], [chosen])
    assert corrected_adaptive_target(rows).tolist() == [0.0, 1.0]


def test_correcting_for_past_choices_brings_their_probability_nearer_to_the_target() -> None:
    row = np.log([0.4, 0.2, 0.15, 0.1, 0.08, 0.05, 0.02])
    chosen = notes_of_a_run(ADAPTIVE_P, row, {"adaptive_target": 0.25}, requests=40, steps=120)
    without = (reference(row, 0.25) * softmax(row)).sum()
    assert abs(chosen[40:].mean() - 0.25) < 0.75 * abs(without - 0.25)


@pytest.mark.parametrize("target", [-1.0, -0.001])
def test_a_target_below_zero_is_off(target: float) -> None:
    assert not ADAPTIVE_P.is_active({"adaptive_target": target})


def test_two_selectors_at_once_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"several selectors: .*adaptive_p.*mirostat"):
        SamplingParams(adaptive_target=0.3, mirostat=1)
