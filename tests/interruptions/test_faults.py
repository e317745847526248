"""Whatever a part of a request raises, wherever a step calls it, ends that request and no other.

A quick run tries a seventh of the calls; ENGINE_SAMPLER_TEST_ROUNDS=2 tries all, as `.ci/run` does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FrameType
from typing import Any

import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.messages import MessageParser
from engine_sampler.requests.ending import RequestEnd
from engine_sampler.requests.request import Request

from ..stateful.plugins import plugins
from ..stateful.workload import BACKENDS, ENGINES, VOCAB, tokenizer_for
from .injecting import PACKAGE
from .scenes import REQUESTS, beams, rows_of, run_to_end

OWN = ("requests", "messages", "contract", "stopping", "samplers", "grammar", "scheduler/beam")
"""Where the functions lie that belong to requests."""

FACTS = {
    *(name for name, fact in vars(Request).items() if isinstance(fact, property)),
    *(name for name in vars(RequestEnd) if not name.startswith("__")),
    "is_own",
    "bounded",
    "steers",
    "state",
    "state_of",
    "__bool__",
    "own_stops",
    *("lead", "steer", "read_answer", "told_phases", "accept_in_grammar", "may_have_ended"),
}
"""What is looked up; `attempt`, with what it needs; and what does nothing but call it."""


class Injection:
    """Raises at call number `at` of a function that belongs to certain requests, inside of `Scheduler.step`.

    where  the function; None if there were fewer calls.
    """

    def __init__(self, owned: Callable[[FrameType], bool], at: int) -> None:
        self.owned, self.left = owned, at
        self.where: str | None = None

    def during(self, call: Callable[[], Any]) -> Any:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return call()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if self.where is not None or not code.co_filename.startswith(PACKAGE):
            return
        if code.co_name in FACTS or not self.owned(frame):
            return
        if not self.left:
            self.where = f"{code.co_filename[len(PACKAGE) :]} {code.co_name}"
            raise RuntimeError("injected")
        self.left -= 1


def belongs_to(scheduler: Scheduler, failing: set[str]) -> Callable[[FrameType], bool]:
    """Whether a call is of a method of one of these requests, or of one of their parts."""
    known = scheduler._requests.known
    groups = {id(group) for i, group in scheduler._requests.groups.items() if i in failing}

    def parts(request: Request) -> Iterator[Any]:
        yield from (request.phases, request.constraint, request.grammar, request.text, request.state)
        yield from (request.stop_checks, request.answer, request.answer and request.answer.parser)
        yield from (part.matcher for part in (request.constraint, request.grammar) if part is not None)
        yield from (state for _, state in request.stop_checks.criteria)

    def owned(frame: FrameType) -> bool:
        this = frame.f_locals.get("self")
        if this is None or type(this) in (int, str):
            return False
        if isinstance(this, Request):
            return this.id in failing
        return id(this) in groups or any(
            this is part for name in failing if name in known for part in parts(known[name])
        )

    return owned


def company(name: str) -> Scheduler:
    """A scheduler with one request of `REQUESTS`, whose answer is read, and two others."""
    scheduler = Scheduler(VOCAB, tokenizer_for(ENGINES[-1]), backend=BACKENDS[-1])
    for request_id in ("plain", "thoughts", name):
        settings, extras = REQUESTS[request_id]
        params = SamplingParams(seed=7, max_tokens=STEPS, **settings)
        is_failing = request_id == name
        scheduler.add(
            params,
            [3, 4],
            request_id="failing" if is_failing else request_id,
            parser=MessageParser(tokenizer=tokenizer_for(ENGINES[-1])) if is_failing else None,
            **{key: make() for key, make in extras.items()},
        )
    return scheduler


SCENES: Mapping[str, tuple[Callable[[], Scheduler], set[str]]] = {
    **{
        name: (partial(company, name), {"failing"})
        for name in ("adaptive", "regex", "thinking", "eager", "criteria")
    },
    "beams": (lambda: beams(BACKENDS[-1], ENGINES[-1]), {"1a", "1b"}),
}
WORDS = "injected", "the beam search found no other text"
EVERY = 7 if int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1")) < 2 else 1
STEPS = 5
"""After so many, some requests have ended and thoughts have been closed."""


def told_by(scheduler: Scheduler, injection: Injection) -> dict[Any, Any]:
    """What each request was told in steps with a fault, and at last."""
    told: dict[Any, list[Any]] = {}
    for _ in range(STEPS):
        live = scheduler.request_ids
        logits = rows_of(scheduler, live)
        result = injection.during(lambda: scheduler.step(logits, live))  # noqa: B023
        deltas = result.deltas or [[]] * len(live)
        for i, name in enumerate(result.request_ids):
            ended = result.finish_reasons[i], result.stop_reasons[i], result.errors[i]
            told.setdefault(name, []).append((result.tokens(i), result.text[i], ended, deltas[i]))
    run_to_end(scheduler)
    for name in scheduler._requests.known:
        record = scheduler.record(name)
        told.setdefault(name, []).append((record.token_ids, record.text, record.finish_reason))
    return told


@pytest.fixture(autouse=True, scope="module")
def own_plugins() -> Iterator[None]:
    with plugins():
        yield


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("name", SCENES)
def test_a_fault_in_any_call_of_a_step_ends_its_request_alone(name: str) -> None:
    make, failing = SCENES[name]
    sound = make()
    count = Injection(belongs_to(sound, failing), 1 << 60)
    expected = told_by(sound, count)
    wrong: dict[str, str] = {}
    for at in range(0, (1 << 60) - count.left, EVERY):
        scheduler = make()
        injection = Injection(belongs_to(scheduler, failing), at)
        try:
            found = told_by(scheduler, injection)
        except RuntimeError as error:
            wrong[str(injection.where)] = f"{error} leaves the step"
            continue
        if any(found[other] != expected[other] for other in expected.keys() - failing):
            wrong[str(injection.where)] = "others differ"
        errors = {scheduler.record(i).error for i in failing}
        if not all(error is None or any(word in error for word in WORDS) for error in errors):
            wrong[str(injection.where)] = str(errors)
    assert not wrong, "\n".join(f"{where}: {what}" for where, what in wrong.items())
