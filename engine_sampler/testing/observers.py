"""`ObserverContract`: the laws of observers as a test class to subclass."""

from __future__ import annotations

import copy
import difflib
import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ..contract import GrammarMeasures, Vocabulary
from ..params import SamplingParams
from ..registry import EVENTS, handler_of
from ..scheduler import Scheduler
from ..scheduler.report import step_measures
from .cases import Random
from .chains import vocabulary_of
from .search.drawing import draw_history
from .search.searching import Searching
from .search.surroundings import in_all_surroundings, leaving_them_alone

STEPS = 8
Event = tuple[str, tuple[Any, ...], str]
"""An event, its values, and the name of its scheduler."""

REQUESTS: tuple[dict[str, Any], ...] = (
    {"max_tokens": 2},
    {"logprobs": 2, "max_tokens": 5},
    {"temperature": 0.0},
    {"top_k": 3},
    {"logprobs": 0, "logprobs_mode": ("raw", "processed"), "top_k": 2},
    {"mirostat": 2},
)
TEXT_REQUESTS: tuple[dict[str, Any], ...] = ({}, {}, {"stop": ["ab"]}, {"regex": "[ab]{2}"})


class ObserverContract(Searching):
    """The laws of observers, tried on the events of a scheduler. Subclass it; pytest does the rest.

    class TestCounter(ObserverContract):
        observer = Counter()

    seconds, seed  as in `Searching`: how much more is tried at random.
    """

    observer: ClassVar[Any]

    def test_it_handles_an_event(self) -> None:
        handled = [event for event in EVENTS if callable(getattr(self.observer, event, None))]
        assert handled, f"{type(self.observer).__name__} has none of the methods {', '.join(EVENTS)}"

    def test_its_methods_are_the_names_of_events(self) -> None:
        for name in dir(type(self.observer)):
            meant = difflib.get_close_matches(name, EVENTS, n=1, cutoff=0.75)
            assert not meant or name in EVENTS, f"{name} is never called: did you mean {meant[0]}?"

    def test_no_event_makes_it_fail(self) -> None:
        for event, values, scheduler in self.events():
            try:
                self.tell(event, values, scheduler)
            except Exception as error:
                raise AssertionError(f"{event} fails: {type(error).__name__}: {error}") from error

    def test_what_it_is_shown_is_only_read(self) -> None:
        for event, values, scheduler in self.events():
            before = copy.deepcopy(values)
            self.tell(event, values, scheduler)
            same = all(repr(now) == repr(then) for now, then in zip(values, before, strict=True))
            assert same, f"{event} changes what it is shown"

    def test_surroundings_do_not_matter(self) -> None:
        name, events = type(self.observer).__name__, list(self.events())

        def deliver() -> None:
            for event in events:
                self.tell(*event)

        # Libraries for tracing draw the ids of their spans from `random`, and no token depends on it.
        with leaving_them_alone(name, may_change=("the state of random",)):
            deliver()
        for _ in in_all_surroundings(deliver):
            pass

    def tell(self, event: str, values: tuple[Any, ...], scheduler: str, observer: Any = None) -> None:
        """Tell `observer`, by default that of the kit, of an event, as a scheduler does."""
        method = getattr(self.observer if observer is None else observer, event, None)
        if method is not None:
            handler_of(method)(scheduler, values)

    def events(self) -> Iterator[Event]:
        """What happens to requests that end for several reasons, as two schedulers tell observers: each event
        with its values and the name of its scheduler. Both have requests of the same ids."""
        for random in self.draws(3):
            both = (_events(random, scheduler) for scheduler in ("first", "second"))
            yield from (event for pair in itertools.zip_longest(*both) for event in pair if event)


def _events(random: Random, name: str) -> Iterator[Event]:
    size = int(random.integers(2, 90))
    vocabulary = vocabulary_of(size) if random.random() < 0.5 else Vocabulary(size, (0,))
    scheduler = Scheduler(size, vocabulary.tokenizer, eos_token_ids=[0], backend="numpy", name=name)
    for number in range(int(random.integers(1, 30))):
        given = {"seed": number, **REQUESTS[int(random.integers(len(REQUESTS)))]}
        if vocabulary.tokenizer is not None:
            given |= TEXT_REQUESTS[int(random.integers(len(TEXT_REQUESTS)))]
        params, prompt = SamplingParams(**given), draw_history(random, size, 20)
        request_id: Any = f"request {number}" if number % 2 else (number, None)
        yield "request_added", (scheduler.add(params, prompt, request_id=request_id), params), name
    begun: set[Any] = set()
    for _ in range(STEPS):
        for event, values in _stepped(random, scheduler, size, begun):
            yield event, values, name
    for request_id in list(scheduler.request_ids):
        yield "request_finished", (scheduler.remove(request_id),), name
    for cached, error in ((False, None), (True, None), (False, "regex: expected a ]")):
        yield "grammar_compiled", (GrammarMeasures(1e-3, cached, error),), name
    for reason in ("declined", "unsupported", "lost"):
        yield "rows_on_host", ("library", int(random.integers(1, 70)), reason), name


def _stepped(
    random: Random, scheduler: Scheduler, size: int, begun: set[Any]
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The events of a step, and of a request that pauses before it."""
    if not scheduler.request_ids:
        return
    paused = scheduler.request_ids[0]
    scheduler.suspend(paused)
    yield "request_suspended", (paused,)
    scheduler.resume(paused)
    yield "request_resumed", (paused,)
    ids = list(scheduler.request_ids)
    logits = random.normal(0, 3, (len(ids), size)).astype(np.float32)
    logits[random.random(len(ids)) < 0.1, 0] += 20  # EOS
    logits[random.random(len(ids)) < random.choice([0.05, 0.05, 0.05, 1.0])] = np.nan
    result = scheduler.step(logits)
    for i, request_id in enumerate(result.request_ids):
        if result.tokens(i) and request_id not in begun:
            begun.add(request_id)
            yield "first_token", (request_id,)
        if result.finish_reasons[i] is not None:
            yield "request_finished", (scheduler.record(request_id),)
    yield "step_measured", (step_measures(result, None, "numpy", 1e-4, 0.0),)
    yield "step_finished", (result,)
