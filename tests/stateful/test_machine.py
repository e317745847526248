"""Random operations on a scheduler, and the faults that they detect.

A quick run tries two schedulers; ENGINE_SAMPLER_TEST_ROUNDS=2 tries four times as many, and
ENGINE_SAMPLER_TEST_SECONDS=3600 goes on for an hour.
"""

from __future__ import annotations

import itertools
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine_sampler.arithmetic import Logprobs
from engine_sampler.requests.detokenizer import Detokenizer, shared_transducer
from engine_sampler.requests.drafted import Draft
from engine_sampler.requests.request import Request
from engine_sampler.requests.slots import Slots
from engine_sampler.requests.state import RequestState
from engine_sampler.requests.stop_checks import StopChecks
from engine_sampler.scheduler.logprobs import LogprobsCollector
from engine_sampler.stopping._strings import StringMatcher
from engine_sampler.stopping.max_tokens import MaxTokensCriteria
from engine_sampler.stopping.repetition import RepetitionCriteria
from engine_sampler.testing.search.machine import search
from engine_sampler.testing.search.searching import seconds_to_search

from ..conftest import example_count
from .machine import SchedulerMachine
from .plugins import plugins

Change = Callable[[Any], Any]
"""A function from a method to its broken replacement."""

LENGTH = 150
"""The operations of one scheduler."""

MOST_TRIED = 40
"""Schedulers that are tried at most until a broken part is detected."""


@pytest.fixture(autouse=True)
def _plugged_in() -> Iterator[None]:
    logging.getLogger("engine_sampler").setLevel(logging.CRITICAL)  # faults are intended here
    with plugins():
        yield
    logging.getLogger("engine_sampler").setLevel(logging.NOTSET)


def run_all(numbers: Iterable[int]) -> None:
    for number in numbers:
        search(partial(SchedulerMachine, number), number, LENGTH)


@pytest.mark.hypothesis
def test_every_law_holds_under_random_operations() -> None:
    end, numbers = time.monotonic() + seconds_to_search(0), itertools.count(random.randrange(2**32))
    run_all(itertools.islice(numbers, example_count(8)))
    run_all(itertools.takewhile(lambda number: time.monotonic() < end, numbers))


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
    "drafts_that_are_never_right": (Draft, "row_after", gives(0)),
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


@pytest.mark.quick_share(3)
@pytest.mark.usefixtures("without_shrinking")
@pytest.mark.parametrize("what", SABOTAGE)
def test_random_operations_detect(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, method, change = SABOTAGE[what]
    monkeypatch.setattr(owner, method, change(getattr(owner, method)))
    shared_transducer.cache_clear()  # it caches the results of broken parts
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever a broken part raises
        run_all(range(MOST_TRIED))
    shared_transducer.cache_clear()
