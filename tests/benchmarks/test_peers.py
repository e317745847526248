"""Costs beside engines' own samplers, their tables, and the pipeline in virtual time."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.measure import Work
from benchmarks.peers import overlap
from benchmarks.peers.cases import CASES, MASKED, Cost
from benchmarks.peers.ours import mask_of, scheduler_step
from benchmarks.peers.report import report
from benchmarks.peers.turns import take_turns
from engine_sampler.contract import unpack_bitmask


def test_sides_take_turns() -> None:
    calls: list[str] = []
    own = Work(lambda: calls.append("own"), lambda: calls.append("before"))
    cost = take_turns(own, Work(lambda: calls.append("ours")), seconds=0)
    assert calls == ["ours", "before", "own"] * 2
    assert cost.own is not None
    assert take_turns(None, Work(lambda: None), 0).own is None


def test_tables_have_a_line_for_each_case_and_say_what_is_missing() -> None:
    costs = {
        "vLLM": {("greedy", 64): Cost(0.005, 0.001, 0.1), (MASKED, 64): Cost(None, 0.02, 0.2)},
        "mlx-lm": {("greedy", 64): Cost(0.02, 0.01, 0.1)},
    }
    lines = report(costs).splitlines()
    assert "| milliseconds per step | 64 rows: its own | ours | faster |" in lines
    assert "| greedy | 5.00 | 1.00 | 5.0× |" in lines
    assert f"| {MASKED} | – | 20.0 | – |" in lines
    assert "| top_p | – | – | – |" in lines
    assert "| greedy | 20% | 5% | 50% | 33% |" in lines
    assert f"| {MASKED} | – | 50% | – | – |" in lines


@pytest.mark.parametrize("case", CASES)
def test_our_step_draws_every_row_of_every_case(case: str) -> None:
    logits = np.random.default_rng(1).normal(0, 2, (3, 70)).astype(np.float32)
    mask = mask_of(70, 3) if case == MASKED else None
    step = scheduler_step(CASES[case], logits, [1, 2, 3], mask, "vllm")
    for _ in range(3):
        tokens = step.call().token_ids
        assert (tokens >= 0).all()
        if mask is not None:
            assert all(unpack_bitmask(mask[row], 70)[token] for row, token in enumerate(tokens))


# --- the pipeline ----------------------------------------------------------------------------------


def test_draws_that_are_shorter_than_a_pass_are_hidden() -> None:
    assert overlap.play(2.0, [1.0] * 10) == 20.0


def test_the_device_waits_for_what_the_processor_has_not_drawn() -> None:
    assert overlap.play(1.0, [0.0, 3.0, 0.0, 0.0]) == 6.0  # the second half's tokens are there after 5
    assert overlap.play(1.0, [2.0] * 100) == pytest.approx(200, rel=0.02)


def test_twice_the_cores_and_twice_the_time_hide_twice_the_rows() -> None:
    seconds = {1: [1e-5], 64: [64e-5]}
    assert overlap.hidden_rows(0.005, 1, seconds) == pytest.approx(2 * 500 * 1.05, rel=0.05)
    for forward, cores in ((0.01, 1), (0.005, 2)):
        assert overlap.hidden_rows(forward, cores, seconds) == pytest.approx(
            2 * overlap.hidden_rows(0.005, 1, seconds), rel=0.01
        )


def test_a_hidden_draw_gains_its_own_time() -> None:
    seconds = {1: [1e-5], 64: [64e-5]}
    assert overlap.gain(0.01, 1000, seconds) == pytest.approx(1.5, rel=0.01)


def test_the_tables_of_the_pipeline_name_chains_times_and_cores() -> None:
    text = overlap.report({"greedy": {1: [1e-5, 1e-5], 64: [64e-5, 64e-5]}})
    assert "| rows whose sampling is hidden | 1 core | 2 cores | 4 cores | 8 cores |" in text
    assert text.count("| greedy, ") == len(overlap.FORWARD_MS)
    assert "| greedy | 10 | 10 |" in text
