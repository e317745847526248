"""`ObserverContract`: the laws of observers as a test class to subclass."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ..contract import GrammarMeasures
from ..params import SamplingParams
from ..registry import EVENTS
from ..scheduler import Scheduler
from ..scheduler.measures import step_measures

SIZE = 40
STEPS = 8
REQUESTS: tuple[dict[str, Any], ...] = (
    {"max_tokens": 2},
    {"logprobs": 2, "max_tokens": 5},
    {"temperature": 0.0},
    {"top_k": 3},
)


class ObserverContract:
    """The laws of observers, tried on the events of a scheduler. Subclass it; pytest does the rest.

    class TestCounter(ObserverContract):
        observer = Counter()
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

    def events(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """What happens to requests that end for several reasons, as a scheduler tells observers."""
        scheduler = Scheduler(SIZE, eos_token_ids=[0], backend="numpy")
        random = np.random.default_rng(0)
        for number, given in enumerate(REQUESTS):
            params = SamplingParams(seed=number, **given)
            yield "request_added", (scheduler.add(params, [1, 2], request_id=f"request {number}"), params)
        for step in range(STEPS):
            ids = list(scheduler.request_ids)
            if not ids:
                break
            logits = random.normal(0, 3, (len(ids), SIZE)).astype(np.float32)
            logits[step % len(ids), 0] += 9.0 * (step > 2)  # EOS
            logits[0] = np.nan if step == STEPS - 2 else logits[0]
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
            yield "rows_on_host", ("library", 3, reason)
