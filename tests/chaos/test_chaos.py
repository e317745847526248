"""A few episodes of random operations, and the faults that they detect.

With ENGINE_SAMPLER_TEST_CHAOS_SECONDS=N it runs for N seconds in all; so does `python -m tests.chaos`, which
also reports.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine_sampler.arithmetic import Logprobs
from engine_sampler.requests.detokenizer import Detokenizer, shared_transducer
from engine_sampler.requests.request import Request
from engine_sampler.requests.slots import Slots
from engine_sampler.requests.state import RequestState
from engine_sampler.requests.stop_checks import StopChecks
from engine_sampler.scheduler.logprobs import LogprobsCollector
from engine_sampler.stopping._strings import StringMatcher
from engine_sampler.stopping.max_tokens import MaxTokensCriteria
from engine_sampler.stopping.repetition import RepetitionCriteria

from .__main__ import Chaos, ChaosFailure, main
from .plugins import plugins
from .world import BACKENDS

EPISODES, MOST_EPISODES = 3, 40
"""Episodes of a quick run on each backend, and at most until a broken part is detected."""

SECONDS = float(os.environ.get("ENGINE_SAMPLER_TEST_CHAOS_SECONDS", "0"))

Change = Callable[[Any], Any]
"""A function from a method to its broken replacement."""


@pytest.fixture
def plugged_in() -> Iterator[None]:
    with plugins():
        yield


@pytest.mark.usefixtures("plugged_in")
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_law_holds_under_random_operations(backend: str) -> None:
    start = time.monotonic()
    episode = 0
    while episode < EPISODES or time.monotonic() - start < SECONDS / len(BACKENDS):
        Chaos(episode, backend).run()
        episode += 1


@pytest.mark.usefixtures("plugged_in")
def test_an_episode_follows_from_its_seed() -> None:
    assert Chaos(1).run(60) == Chaos(1).run(60)


def test_the_command_reports_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0", "--seed", "1", "--operations", "20"]) == 0
    assert "1 episodes" in capsys.readouterr().out


def run_episodes(count: int) -> None:
    for episode in range(count):
        Chaos(episode).run()


def gives(value: Any) -> Change:
    """A method that does nothing and returns `value`."""
    return lambda original: lambda *arguments: value


def shares(part: str) -> Change:
    """A fork that shares `part` with its parent."""

    def change(original: Any) -> Any:
        def fork(self: Any, *arguments: Any) -> Any:
            child = original(self, *arguments)
            setattr(child, part, getattr(self, part))
            return child

        return fork

    return change


def spares(part: str, empty: Any) -> Change:
    """A rollback that leaves `part` unchanged."""

    def change(original: Any) -> Any:
        def rollback(self: Any, *arguments: Any) -> None:
            kept = getattr(self, part)
            setattr(self, part, empty)
            original(self, *arguments)
            setattr(self, part, kept)

        return rollback

    return change


def keeps_the_mask(original: Any) -> Any:
    """A rollback after which the old mask still counts as that of the next token."""

    def rollback(self: Request, slots: Slots, n: int) -> None:
        ready = self.grammar.mask_ready
        original(self, slots, n)
        self.grammar.mask_ready = ready

    return rollback


def only_the_history(original: Any) -> Any:
    """A rollback that the states of samplers and selectors do not follow."""
    return lambda self, n: self.history.rollback(n)


def takes_back_less(original: Any) -> Any:
    """A rollback that does not reduce the position."""

    def rollback(self: Slots, slot: int, n: int) -> None:
        original(self, slot, n)
        self.positions[slot] += n

    return rollback


def cuts_nothing(original: Any) -> Any:
    """A text that ends with everything that was held back."""
    return lambda self, cut=0: original(self)


def is_a_little_off(original: Any) -> Any:
    """Logprobs that are wrong in the fourth decimal place."""

    def result(self: LogprobsCollector) -> Any:
        found = original(self)
        if isinstance(found, Logprobs):
            return replace(found, logprobs=found.logprobs + np.float32(1e-4))
        return found and {k: replace(t, logprobs=t.logprobs + np.float32(1e-4)) for k, t in found.items()}

    return result


SABOTAGE: dict[str, tuple[Any, str, Change]] = {
    "a_text_that_is_not_rolled_back": (Detokenizer, "rollback", gives(None)),
    "a_text_that_is_not_cut": (Detokenizer, "close", cuts_nothing),
    "logprobs_that_are_a_little_off": (LogprobsCollector, "result", is_a_little_off),
    "a_stop_string_that_is_not_held_back": (StringMatcher, "held", gives(0)),
    "criteria_that_are_not_rolled_back": (StopChecks, "rollback", spares("criteria", [])),
    "a_grammar_that_is_not_rolled_back": (Request, "rollback", spares("grammar", None)),
    "positions_that_are_not_rolled_back": (Slots, "rollback", takes_back_less),
    "a_mask_that_is_out_of_date": (Request, "rollback", keeps_the_mask),
    "a_limit_that_is_not_rolled_back": (MaxTokensCriteria, "rollback", gives(None)),
    "repetitions_that_are_not_rolled_back": (RepetitionCriteria, "rollback", gives(None)),
    "samplers_that_are_not_rolled_back": (RequestState, "rollback", only_the_history),
    "a_fork_with_its_parents_text": (Request, "fork", shares("text")),
    "a_fork_with_its_parents_criteria": (StopChecks, "fork", shares("criteria")),
    "a_fork_with_its_parents_grammar": (Request, "fork", shares("grammar")),
    "a_fork_with_its_parents_samplers": (RequestState, "fork", shares("_states")),
    "a_grammar_that_gets_no_tokens": (Request, "accept_in_grammar", gives(True)),
    "a_slot_that_keeps_watching": (Slots, "_watch", gives(None)),
}
"""The methods to break, and how."""


@pytest.mark.usefixtures("plugged_in")
@pytest.mark.parametrize("what", SABOTAGE)
def test_random_operations_detect(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, method, change = SABOTAGE[what]
    monkeypatch.setattr(owner, method, change(getattr(owner, method)))
    shared_transducer.cache_clear()  # it caches the results of broken parts
    with pytest.raises(ChaosFailure):
        run_episodes(MOST_EPISODES)
    shared_transducer.cache_clear()
