"""`ObserverContract`: the laws of observers as a test class to subclass."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ..contract import GrammarMeasures, Vocabulary
from ..params import SamplingParams
from ..registry import EVENTS
from ..scheduler import Scheduler
from ..scheduler.measures import step_measures
from .cases import Random
from .chains import vocabulary_of
from .search.drawing import draw_history
from .search.searching import Searching
from .search.surroundings import in_all_surroundings, leaving_them_alone

STEPS = 8
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
        for event, values in self.events():
            method = getattr(self.observer, event, None)
            if method is not None:
                try:
                    method(*values)
                except Exception as error:
                    raise AssertionError(f"{event} fails: {type(error).__name__}: {error}") from error

    def test_what_it_is_shown_is_only_read(self) -> None:
        for event, values in self.events():
            method, before = getattr(self.observer, event, None), copy.deepcopy(values)
            if method is not None:
                method(*values)
                same = all(repr(now) == repr(then) for now, then in zip(values, before, strict=True))
                assert same, f"{event} changes what it is shown"

    def test_surroundings_do_not_matter(self) -> None:
        name, events = type(self.observer).__name__, list(self.events())

        def deliver() -> None:
            for event, values in events:
                method = getattr(self.observer, event, None)
                if method is not None:
                    method(*values)

        with leaving_them_alone(name):
            deliver()
        for _ in in_all_surroundings(deliver):
            pass

    def events(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """What happens to requests that end for several reasons, as a scheduler tells observers."""
        for random in self.draws(3):
            yield from _events(random)


def _events(random: Random) -> Iterator[tuple[str, tuple[Any, ...]]]:
    size = int(random.integers(2, 90))
    vocabulary = vocabulary_of(size) if random.random() < 0.5 else Vocabulary(size, (0,))
    scheduler = Scheduler(size, vocabulary.tokenizer, eos_token_ids=[0], backend="numpy")
    for number in range(int(random.integers(1, 30))):
        given = {"seed": number, **REQUESTS[int(random.integers(len(REQUESTS)))]}
        if vocabulary.tokenizer is not None:
            given |= TEXT_REQUESTS[int(random.integers(len(TEXT_REQUESTS)))]
        params, prompt = SamplingParams(**given), draw_history(random, size, 20)
        name: Any = f"request {number}" if random.random() < 0.5 else (number, None)
        yield "request_added", (scheduler.add(params, prompt, request_id=name), params)
    for _ in range(STEPS):
        ids = list(scheduler.request_ids)
        if not ids:
            break
        logits = random.normal(0, 3, (len(ids), size)).astype(np.float32)
        logits[random.random(len(ids)) < 0.1, 0] += 20  # EOS
        logits[random.random(len(ids)) < random.choice([0.05, 0.05, 0.05, 1.0])] = np.nan
        result = scheduler.step(logits)
        for request_id, reason in zip(result.request_ids, result.finish_reasons, strict=True):
            if reason is not None:
                yield "request_finished", (scheduler.record(request_id),)
        yield "step_finished", (result,)
        yield "step_measured", (step_measures(result, None, "numpy", 1e-4, 0.0),)
    for request_id in list(scheduler.request_ids):
        yield "request_finished", (scheduler.remove(request_id),)
    for cached, error in ((False, None), (True, None), (False, "regex: expected a ]")):
        yield "grammar_compiled", (GrammarMeasures(1e-3, cached, error),)
    for reason in ("declined", "unsupported", "lost"):
        yield "rows_on_host", ("library", int(random.integers(1, 70)), reason)
