"""Tables for the terminal, at common widths."""

from __future__ import annotations

import io

import numpy as np
import pytest

pytest.importorskip("rich")

from rich.console import Console

from engine_sampler.explain import trace
from engine_sampler.explain.terminal import explanation, make_console
from engine_sampler.params import SamplingParams

WIDTHS = (80, 120, 200)
ROW = np.linspace(3, -3, 40, dtype=np.float32)
LONG_CHAIN = SamplingParams(
    logit_bias={3: 1.0},
    repetition_penalty=1.3,
    repetition_penalty_range=256,
    repetition_penalty_slope=0.7,
    top_k=30,
    top_a=0.001,
    tfs=0.99,
    typical_p=0.95,
    top_p=0.97,
    min_p=0.001,
    temperature=0.8,
    dynatemp_range=0.2,
    seed=1,
)


def rendered(renderables, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(*renderables)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", WIDTHS)
def test_every_step_of_a_long_chain_is_shown_in_full(width):
    steps = trace(ROW, LONG_CHAIN, prompt_token_ids=[1, 2])
    lines = rendered(explanation(steps, 12, width), width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    for step in steps:
        assert step.name in text
        assert f"{step.entropy_bits:.2f}" in text
    assert "repetition_penalty_range=256" in text
    assert "temperature 0.8" in text


@pytest.mark.parametrize("width", WIDTHS)
def test_every_token_followed_has_a_cell_in_every_step(width):
    steps = trace(ROW, SamplingParams(top_k=3, temperature=0.5, seed=1), top=4)
    lines = rendered(explanation(steps, 4, width), width)
    journey = {line.split()[0]: line.split()[1:] for line in lines if line.startswith(" #")}
    assert set(journey) == {"#0", "#1", "#2", "#3"}
    assert journey["#3"][1:3] == ["·", "·"]
    assert journey[f"#{steps[-1].token_id}"][-1] == "chosen"


def test_shares_are_those_of_the_steps():
    steps = trace(ROW, SamplingParams(top_k=3))
    line = next(line for line in rendered(explanation(steps, 3, 80), 80) if line.startswith(" #0"))
    assert line.split()[1:3] == [f"{100 * step.probabilities[0]:.1f}" for step in steps[:2]]


@pytest.mark.parametrize("width", range(1, 24))
def test_a_terminal_of_any_width_gets_its_tables(width):
    steps = trace(ROW, SamplingParams(top_k=3, temperature=0.5, seed=1), top=4)
    assert rendered(explanation(steps, 4, width), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_cut_of_mirostat_is_told_with_its_mu(width):
    steps = trace(ROW, SamplingParams(mirostat=2, mirostat_tau=1.25, seed=1))
    lines = rendered(explanation(steps, 4, width), width)
    index = next(i for i, line in enumerate(lines) if "mirostat_v2 cut" in line)
    assert f" {steps[1].candidates} " in lines[index]
    assert "mu=2.5" in lines[index + 1]


def test_output_that_is_not_a_terminal_has_no_colours_and_a_fixed_width(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    console = make_console()
    console.print("text", style="bold red")
    assert (console.width, capsys.readouterr().out) == (80, "text\n")
