"""Long work on one thread gives way to a step on another one, and to nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.base import giving_way
from engine_sampler.base.giving_way import begin_step, end_step, give_way, in_slices, unhurried


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that are made, which take no time."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    monkeypatch.setattr(giving_way, "SLICE", 0.0)
    return made


@pytest.fixture
def step() -> Iterator[None]:
    """A step on another thread."""
    ended, begun = threading.Event(), threading.Event()

    def run() -> None:
        begin_step(threading.get_ident())
        begun.set()
        ended.wait()
        end_step(threading.get_ident())

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    yield
    ended.set()
    thread.join()


def test_work_goes_on_while_nothing_is_stepped(pauses: list[float]) -> None:
    give_way()
    assert list(unhurried(range(1000))) == list(range(1000))
    assert pauses == []


@pytest.mark.usefixtures("step")
def test_work_pauses_while_another_thread_steps(pauses: list[float]) -> None:
    give_way()
    assert len(pauses) == 1
    assert list(unhurried(range(1000))) == list(range(1000))
    assert [len(some) for some in in_slices(range(7), 3)] == [3, 3, 1]
    assert len(pauses) > 10


@pytest.mark.usefixtures("step")
@pytest.mark.parametrize(
    "parameters",
    [
        {"logit_bias": dict.fromkeys(range(500), 1.0)},
        {"allowed_token_ids": list(range(500))},
        {"bad_words": [[i] for i in range(500)]},
        {"stop": [f"{i}" for i in range(500)]},
        {"stop_regex": [r"(\w|\d){1,50}~"]},
    ],
    ids=str,
)
def test_long_parameters_are_converted_in_slices(parameters: dict[str, Any], pauses: list[float]) -> None:
    SamplingParams(**parameters)
    assert pauses


def test_a_step_does_not_give_way_to_itself(pauses: list[float]) -> None:
    begin_step(threading.get_ident())
    give_way()
    end_step(threading.get_ident())
    assert pauses == []


def test_a_scheduler_says_when_it_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    scheduler = Scheduler(8)
    scheduler.add(SamplingParams())
    monkeypatch.setattr(
        scheduler._runner, "fill_masks", lambda inputs: seen.append(set(giving_way._stepping))
    )
    scheduler.prepare()
    assert seen == [{threading.get_ident()}]
    assert giving_way._stepping == set()
