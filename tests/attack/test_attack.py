"""Hostile clients leave their neighbours as they are in a quiet run; `python -m tests.attack` measures it."""

from __future__ import annotations

import functools

import pytest

from .__main__ import main
from .clients import CLIENTS
from .engine import QUIET, Engine, NeighbourHarmed, Outcome, expect_unharmed

SIZE, NEIGHBOURS, STEPS = 600, 6, 12


def run(client: str) -> Outcome:
    return Engine(SIZE, NEIGHBOURS, seed=1).run(CLIENTS[client], STEPS, requests=1)


@functools.cache
def quiet_engine() -> tuple[Engine, Outcome]:
    engine = Engine(SIZE, NEIGHBOURS, seed=1)
    return engine, engine.run(QUIET, STEPS, requests=1)


def quiet(steps: int = STEPS) -> Outcome:
    engine, outcome = quiet_engine()
    engine.continue_quietly(outcome, steps)
    return outcome


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_hostile_client_does_not_change_its_neighbours(client: str) -> None:
    outcome = run(client)
    expect_unharmed(quiet(len(outcome.tokens)), outcome)


def test_a_changed_neighbour_is_noticed() -> None:
    changed = Outcome(tokens=[list(tokens) for tokens in quiet().tokens])
    changed.tokens[3][2] += 1
    with pytest.raises(NeighbourHarmed, match="step 3: neighbour 2"):
        expect_unharmed(quiet(), changed)


def test_neighbours_are_compared_to_the_last_step() -> None:
    changed = Outcome(tokens=[list(tokens) for tokens in quiet(STEPS + 40).tokens])
    changed.tokens[-1][0] += 1
    with pytest.raises(NeighbourHarmed, match=f"step {len(changed.tokens) - 1}: neighbour 0"):
        expect_unharmed(quiet(), changed)


def test_the_command_prints_the_steps_of_every_client(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--vocab-size", str(SIZE), "--steps", "5", "deep_json", "huge_numbers"])
    assert "deep_json" in (printed := capsys.readouterr().out)
    assert "times that of the quiet run" in printed
