"""A call that is interrupted at any line or bytecode has changed nothing, or everything that it changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine_sampler import Record, Scheduler

from ..stateful.checks import expect_sound
from ..stateful.plugins import plugins
from ..stateful.workload import BACKENDS, ENGINES
from .injecting import Injection, count_of
from .scenes import BEAMS, CALLS, Call, beams, facts, outcomes, scene

ERRORS = (KeyboardInterrupt, MemoryError, SystemExit)
ROUNDS = float(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))
POINTS = 9
"""How many points of each call are tried in a round."""

CUT = "the matcher was interrupted while it changed"
"""Why a request ends whose matcher, an object of somebody else, was interrupted in the middle of a change."""


@pytest.fixture(autouse=True)
def own_plugins() -> Iterator[None]:
    with plugins():
        yield


class Story:
    """The same calls to a scheduler that is interrupted, and to one that is not."""

    def __init__(self, make: Any, seed: int, *, opcodes: bool) -> None:
        self.make, self.opcodes = make, opcodes
        self.random = np.random.default_rng(seed)
        self.done: list[Call] = []
        self.twin, self.scheduler = make(), make()
        self.points = 0
        self.before: dict[Any, Record] = {}
        self.searching: set[Any] = set()

    def tell(self, what: str, call: Call) -> None:
        """Interrupt `call` at some points, then let it come to its end."""
        before = facts(self.twin)
        self.before = {i: request.record() for i, request in self.twin._requests.known.items()}
        self.searching = {*self.twin._requests.groups}
        events = count_of(lambda: call(self.twin), opcodes=self.opcodes)
        self.done.append(call)
        count = min(events, round(POINTS * ROUNDS))
        for at in sorted(self.random.choice(events, count, replace=False).tolist()):
            injection = Injection(ERRORS[self.points % len(ERRORS)], at, opcodes=self.opcodes)
            self.points += 1
            injection.during(lambda: call(self.scheduler))
            if injection.where is None:
                break
            try:
                expect_sound(self.scheduler)
                if self.faults_expected(injection) or facts(self.scheduler) != before:
                    break  # it was done
            except AssertionError as error:
                name = injection.error.__name__
                raise AssertionError(f"{what}, {name} at {injection.where}: {error}") from error
        else:
            call(self.scheduler)
        assert facts(self.scheduler) == facts(self.twin), f"{what}, {injection.where}"

    def faults_expected(self, injection: Injection) -> bool:
        """Whether the error was taken for a fault of a plugin, or has cut a plugin's matcher in half: then it
        may have ended requests, with the reason, and all others are as they must be."""
        records = [request.record() for request in self.scheduler._requests.known.values()]
        if injection.passed and not any(CUT in str(record.error) for record in records):
            return False
        told = any(name in str(injection.where) for name in ("notify", "request_added", "request_finished"))
        assert injection.passed or injection.error is MemoryError or (injection.error is SystemExit and told)
        for record in records:
            twin = self.twin.record(record.request_id)
            searching = record.request_id in self.searching  # then a text that fails changes the others
            if not searching and not any(reason in str(record.error) for reason in (CUT, "MemoryError")):
                assert record in (twin, self.before.get(record.request_id))
        self.scheduler = self.make()
        for call in self.done:
            call(self.scheduler)
        return True

    def end(self) -> None:
        """All requests end as if there had been no interruption."""
        assert outcomes(self.scheduler) == outcomes(self.twin)


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("opcodes", [False, True], ids=["lines", "bytecodes"])
@pytest.mark.parametrize(("backend", "engine"), [(BACKENDS[-1], ENGINES[-1]), (BACKENDS[0], ENGINES[0])])
def test_every_call_is_done_or_not_wherever_it_is_interrupted(
    backend: str, engine: str, opcodes: bool
) -> None:
    story = Story(lambda: scene(backend, engine), 7, opcodes=opcodes)
    for what, call in CALLS:
        story.tell(what, call)
    story.end()


@pytest.mark.parametrize("opcodes", [False, True], ids=["lines", "bytecodes"])
def test_a_step_of_beam_searches_is_done_or_not_wherever_it_is_interrupted(opcodes: bool) -> None:
    story = Story(lambda: beams(BACKENDS[-1], ENGINES[-1]), 8, opcodes=opcodes)
    for what, call in BEAMS:
        story.tell(what, call)
    story.end()


def lacking(make: Any, done: list[Call]) -> Scheduler:
    """A scheduler after these calls, whose requests have lacked memory before."""
    scheduler: Scheduler = make()
    for call in done:
        call(scheduler)
    for request in scheduler._requests.known.values():
        request.has_lacked_memory = True
    return scheduler


@pytest.mark.parametrize(
    ("make", "calls", "within"),
    [
        (lambda: scene(BACKENDS[-1], ENGINES[-1]), CALLS, "requests/slots.py"),
        (lambda: beams(BACKENDS[-1], ENGINES[-1]), BEAMS, "scheduler/membership/live_requests.py"),
    ],
    ids=["phases", "beams"],
)
def test_a_second_lack_of_memory_that_ends_a_request_leaves_no_slot_half_changed(
    make: Any, calls: Any, within: str
) -> None:
    random = np.random.default_rng(6)
    done: list[Call] = []
    for what, call in calls:
        if what == "drafts" or "step" in what:
            events = count_of(partial(call, lacking(make, done)), opcodes=True, within=within)
            for at in random.choice(events, round(POINTS * ROUNDS)).tolist():
                scheduler = lacking(make, done)
                injection = Injection(MemoryError, at, opcodes=True, within=within)
                injection.during(partial(call, scheduler))
                expect_sound(scheduler)
        done.append(call)
