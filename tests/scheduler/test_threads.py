"""Other threads add, accept and remove while steps run; observers watch."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine_sampler import RequestError, SamplingParams, Scheduler
from engine_sampler.contract import StoppingCriteria, StopVerdict, hookimpl

from ..engines import alone, make_scheduler, model_step, outcome, registered_plugin, rows_for, run_to_end
from ..stateful.checks import expect_sound


class Interruption(StoppingCriteria):
    """Lets another thread do `work` in the middle of a step, and waits until it is done."""

    name = "interruption"

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        self.result: Any = None

    def check(self, state: Any, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        if self._work is not None:
            work, self._work = self._work, None
            with ThreadPoolExecutor(1) as other:
                self.result = other.submit(work).result(timeout=30)
        return None


def interrupted(work: Callable[[Scheduler], Any]) -> tuple[Scheduler, Any, Any]:
    """A step of requests "first" and "second" during which another thread does `work`."""
    scheduler = make_scheduler()
    interruption = Interruption(lambda: work(scheduler))
    params = SamplingParams(seed=1, logit_bias={39: -100.0}, max_tokens=6)
    scheduler.add(params, request_id="first", stopping_criteria=[interruption])
    scheduler.add(params, request_id="second")
    result = model_step(scheduler)
    return scheduler, result, interruption.result


EXPECTED = SamplingParams(seed=1, logit_bias={39: -100.0}, max_tokens=6)


def test_a_request_added_during_a_step_joins_after_it() -> None:
    scheduler, result, _ = interrupted(lambda s: s.add(EXPECTED, request_id="third"))
    assert result.request_ids == ["first", "second"]
    assert scheduler.request_ids == ["first", "second", "third"]
    run_to_end(scheduler)
    assert outcome(scheduler.record("third")) == outcome(alone(EXPECTED))


def test_tokens_accepted_during_a_step_follow_its_token() -> None:
    expected = alone(EXPECTED).token_ids
    scheduler, result, _ = interrupted(lambda s: s.accept("second", expected[1:3]))
    assert result.tokens(1) == expected[:1]
    assert scheduler.record("second").token_ids == expected[:3]
    run_to_end(scheduler)
    assert scheduler.record("second").token_ids == expected


def test_a_request_removed_during_a_step_is_still_served_by_it() -> None:
    scheduler, result, record = interrupted(lambda s: s.remove("second"))
    assert result.tokens(1) == alone(EXPECTED).token_ids[:1]
    assert result.finish_reasons == [None, None]
    assert record.finish_reason == "abort"
    assert scheduler.request_ids == ["first"]
    with pytest.raises(RequestError, match="unknown"):
        scheduler.record("second")
    run_to_end(scheduler)
    assert outcome(scheduler.record("first")) == outcome(alone(EXPECTED))


def test_an_id_freed_during_a_step_may_be_reused_during_the_same_step() -> None:
    def replace(scheduler: Scheduler) -> None:
        scheduler.remove("second")
        scheduler.add(EXPECTED.replace(seed=2), request_id="second")

    scheduler, result, _ = interrupted(replace)
    assert result.tokens(1) == alone(EXPECTED).token_ids[:1]
    assert scheduler.request_ids == ["first", "second"]
    run_to_end(scheduler)
    assert outcome(scheduler.record("second")) == outcome(alone(EXPECTED.replace(seed=2)))


def test_a_request_that_ends_in_the_step_in_which_it_is_removed_and_replaced() -> None:
    scheduler = make_scheduler()

    def replace() -> None:
        scheduler.remove("second")
        scheduler.add(EXPECTED, request_id="second")

    scheduler.add(EXPECTED, request_id="first", stopping_criteria=[Interruption(replace)])
    scheduler.add(EXPECTED.replace(max_tokens=1), request_id="second")
    assert model_step(scheduler).finish_reasons == [None, "length"]
    assert scheduler.request_ids == ["first", "second"]
    run_to_end(scheduler)
    assert outcome(scheduler.record("second")) == outcome(alone(EXPECTED))


def test_a_request_added_and_removed_during_a_step_leaves_no_trace() -> None:
    def passing(scheduler: Scheduler) -> None:
        scheduler.add(EXPECTED, request_id="third")
        scheduler.accept("third", [1])
        scheduler.remove("third")

    scheduler, _, _ = interrupted(passing)
    assert scheduler.request_ids == ["first", "second"]
    assert len(scheduler._requests.slots.entries) - len(scheduler._requests.slots._free) == 2


def test_many_threads_add_and_remove_while_steps_run() -> None:
    scheduler = make_scheduler()
    added: dict[int, SamplingParams] = {}
    removed: set[int] = set()
    start = threading.Barrier(4)

    def client(number: int) -> None:
        chance = random.Random(number)
        start.wait()
        for i in range(25):
            seed = 100 * number + i
            added[seed] = SamplingParams(
                seed=seed, top_k=chance.choice((0, 5)), max_tokens=chance.randint(1, 6)
            )
            scheduler.add(added[seed], [seed % 7], request_id=seed)
            if chance.random() < 0.3:
                scheduler.remove(seed)
                removed.add(seed)

    with ThreadPoolExecutor(3) as pool:
        clients = [pool.submit(client, n) for n in range(3)]
        start.wait()
        while scheduler.request_ids or not all(c.done() for c in clients):
            live = scheduler.request_ids
            try:
                rows = rows_for(scheduler, live)
                scheduler.step(rows, live)
            except RequestError:  # one of them was removed meanwhile
                continue
        for done in clients:
            done.result()
    for seed in added.keys() - removed:
        assert outcome(scheduler.record(seed)) == outcome(alone(added[seed], [seed % 7]))
    assert len(scheduler._requests.slots._free) == len(scheduler._requests.slots.entries)


# --- observers -----------------------------------------------------------------------------------


class Watcher:
    """An observer that records its calls."""

    name = "watcher"

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def request_added(self, request_id: Any, params: SamplingParams) -> None:
        self.events.append(("added", request_id, params))

    def step_finished(self, result: Any) -> None:
        self.events.append(("step", result.request_ids))

    def request_finished(self, record: Any) -> None:
        self.events.append(("finished", record.request_id, record.finish_reason))


class Failing:
    name = "failing"

    def request_added(self, *values: Any) -> None:
        raise RuntimeError("not now")

    step_finished = request_finished = request_added


class Watching:
    """A plugin with the given observers."""

    def __init__(self, *observers: Any) -> None:
        self._observers = observers

    @hookimpl
    def register_observers(self, register: Any) -> None:
        for observer in self._observers:
            register(observer)


def test_observers_are_called_for_requests_and_steps() -> None:
    watcher = Watcher()
    params = SamplingParams(seed=1, max_tokens=2, logit_bias={39: -100.0})
    with registered_plugin(Watching(watcher)):
        scheduler = make_scheduler()
        for name in "ab":
            scheduler.add(params, request_id=name)
        model_step(scheduler)
        scheduler.remove("b")
        model_step(scheduler)
        scheduler.remove("a")
    assert watcher.events == [
        ("added", "a", params),
        ("added", "b", params),
        ("step", ["a", "b"]),
        ("finished", "b", "abort"),
        ("finished", "a", "length"),
        ("step", ["a"]),
    ]


def test_a_failing_observer_is_logged_and_affects_no_request(caplog: pytest.LogCaptureFixture) -> None:
    watcher = Watcher()
    params = SamplingParams(seed=1, max_tokens=3)
    with registered_plugin(Watching(Failing(), watcher)):
        scheduler = make_scheduler()
        scheduler.add(params)
        run_to_end(scheduler)
    assert outcome(scheduler.record(0)) == outcome(alone(params))
    assert ("finished", 0, scheduler.record(0).finish_reason) in watcher.events
    assert "observer failing failed at request_added" in caplog.text


def test_an_observer_may_remove_and_add_requests_at_any_event() -> None:
    class Swapping:
        name = "swapping"
        swapped = False

        def request_added(self, request_id: Any, params: SamplingParams) -> None:
            if request_id == "unwanted":
                scheduler.remove(request_id)
                scheduler.add(params, request_id="wanted")

        def step_finished(self, result: Any) -> None:
            if not self.swapped:
                self.swapped = True
                scheduler.remove("wanted")

    with registered_plugin(Watching(Swapping())):
        scheduler = make_scheduler()
        scheduler.add(SamplingParams(seed=1), request_id="unwanted")
        assert scheduler.request_ids == ["wanted"]
        model_step(scheduler)
    assert scheduler.request_ids == []
    expect_sound(scheduler)
