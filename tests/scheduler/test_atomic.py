"""Every public call changes everything that it is asked to change, or nothing; steps do not nest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestError, SamplingParams, Scheduler
from engine_sampler.contract import Param, Sampler, Selector, StoppingCriteria, Watch

from ..engines import (
    VOCAB,
    ToyMatcher,
    alone,
    make_scheduler,
    model_step,
    outcome,
    registered,
    rows_for,
    run_to_end,
)
from ..stateful.checks import digest, expect_sound

PLAIN = SamplingParams(seed=3, max_tokens=6, logit_bias={39: -100.0})


def company() -> Scheduler:
    """A scheduler with two requests, one of which has made a step."""
    scheduler = make_scheduler()
    scheduler.add(PLAIN, [1], request_id="first")
    model_step(scheduler)
    scheduler.add(PLAIN, [1], request_id="second")
    return scheduler


def expect_untouched(scheduler: Scheduler, before: bytes) -> None:
    """The scheduler is as it was, and its requests end as if they were alone."""
    assert digest(scheduler) == before
    expect_sound(scheduler)
    run_to_end(scheduler)
    for name in ("first", "second"):
        assert outcome(scheduler.record(name)) == outcome(alone(PLAIN, [1]))


# --- add -----------------------------------------------------------------------------------------


class Watches(StoppingCriteria):
    """Returns `what` from `watch`."""

    name = "watches"

    def __init__(self, what: Any) -> None:
        self.what = what

    def watch(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        return self.what

    def check(self, state: Any, token_ids: Sequence[int], text: str) -> None:
        return None


@pytest.mark.parametrize(
    "what",
    [
        7,
        "soon",
        Watch(None),  # type: ignore[arg-type]
        Watch([1.5]),  # type: ignore[list-item]
        Watch(["1"]),  # type: ignore[list-item]
        Watch([VOCAB]),
        Watch([-1]),
        Watch([10**30]),
        Watch(range(10**12)),
        Watch((), "later"),  # type: ignore[arg-type]
        Watch((), float("nan")),  # type: ignore[arg-type]
    ],
)
def test_a_criterion_with_a_wrong_watch_is_refused_by_name_and_changes_nothing(what: Any) -> None:
    scheduler = company()
    before = digest(scheduler)
    with pytest.raises(ParameterError, match="watches"):
        scheduler.add(PLAIN, [1], request_id="third", stopping_criteria=[Watches(what)])
    expect_untouched(scheduler, before)


@pytest.mark.parametrize("length", [-5, 0, 10**30, None])
def test_an_output_length_out_of_reach_is_the_nearest_one(length: int | None) -> None:
    scheduler = company()
    watch = Watch((), length)
    scheduler.add(PLAIN, [1], request_id="third", stopping_criteria=[Watches(watch)])
    run_to_end(scheduler)
    assert outcome(scheduler.record("third")) == outcome(alone(PLAIN, [1]))


class Large(Sampler):
    """A sampler whose parameter may be larger than a column can hold."""

    name = "large"
    after = "min_p"
    params = (Param("large", int, 0, convert=int),)

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        assert (rows["large"] >= 0).all()


HUGE = 10**30


def test_a_request_that_cannot_get_its_slot_is_refused_and_changes_nothing() -> None:
    with registered(Large()):
        scheduler = company()
        scheduler.add(PLAIN.replace(large=1), request_id="small")
        model_step(scheduler)  # the parameter has a column
        scheduler.remove("small")
        before = digest(scheduler)
        with pytest.raises(RequestError, match="joining of request 'third' failed: OverflowError"):
            scheduler.add(PLAIN.replace(large=HUGE), [1], request_id="third")
        with pytest.raises(RequestError, match="OverflowError"):
            scheduler.add_group(PLAIN.replace(large=HUGE, n=3), [1])
        expect_untouched(scheduler, before)


class DuringCheck(StoppingCriteria):
    """Does `work` once, on the thread of the step, in `check`; keeps what it raises."""

    name = "during_check"

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work: Callable[[], Any] | None = work
        self.raised: BaseException | None = None

    def check(self, state: Any, token_ids: Sequence[int], text: str) -> None:
        if self.work is not None:
            work, self.work = self.work, None
            try:
                work()
            except Exception as error:
                self.raised = error


def test_a_request_that_cannot_join_after_a_step_ends_and_the_pending_others_join() -> None:
    with registered(Large()):
        scheduler = company()
        scheduler.add(PLAIN.replace(large=1), request_id="small")
        model_step(scheduler)
        scheduler.remove("small")
        expected = alone(PLAIN, [1])

        def work() -> None:
            scheduler.add(PLAIN.replace(large=HUGE), request_id="huge")
            scheduler.add(PLAIN.replace(large=HUGE), request_id="gone")
            scheduler.remove("gone")
            scheduler.add_group(PLAIN.replace(large=HUGE, n=2), request_ids=["a", "b"])
            scheduler.add(PLAIN, [1], request_id="third")

        scheduler.add(PLAIN, [1], request_id="caller", stopping_criteria=[DuringCheck(work)])
        result = model_step(scheduler)
        assert result.errors == [None] * 3
        for name in ("huge", "a", "b"):
            record = scheduler.record(name)
            assert record.finish_reason == "error"
            assert "OverflowError" in str(record.error)
        expect_sound(scheduler)
        run_to_end(scheduler)
        for name in ("first", "second", "third", "caller"):
            assert outcome(scheduler.record(name)) == outcome(expected)


class FailsToStart(Sampler):
    """Fails in the method that `at` names."""

    name = "fails_to_start"
    after = "min_p"
    params = (Param("fails_at", str, "", switch=True),)

    def _fail(self, params: Any, at: str) -> None:
        if params["fails_at"] == at:
            raise KeyError("prompt")

    def resolve(self, params: Any, vocabulary: Any) -> None:
        self._fail(params, "resolve")

    def new_state(self, params: Any, prompt_token_ids: Any) -> list[str]:
        self._fail(params, "new_state")
        return [params["fails_at"]]

    def accept(self, state: Any, token_ids: Any) -> None:
        if state == ["accept"]:
            raise KeyError("token")

    def fork(self, state: Any) -> Any:
        if state == ["fork"]:
            raise KeyError("copy")
        return list(state)

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        pass


@pytest.mark.parametrize("at", ["resolve", "new_state", "accept"])
def test_what_a_sampler_raises_in_add_names_it(at: str) -> None:
    with registered(FailsToStart()):
        scheduler = company()
        before = digest(scheduler)
        with pytest.raises(ParameterError, match="fails_to_start failed: KeyError"):
            scheduler.add(PLAIN.replace(fails_at=at), [1], output_token_ids=[2])
        expect_untouched(scheduler, before)


def test_a_state_that_cannot_be_copied_refuses_fork_and_add_group() -> None:
    with registered(FailsToStart()):
        scheduler = make_scheduler()
        one = scheduler.add(PLAIN.replace(fails_at="fork"))
        before = digest(scheduler)
        for call in (
            lambda: scheduler.fork(one),
            lambda: scheduler.add_group(PLAIN.replace(fails_at="fork", n=2)),
        ):
            with pytest.raises(RequestError, match="cannot be forked: fails_to_start failed: KeyError"):
                call()
        assert digest(scheduler) == before
        expect_sound(scheduler)


def test_a_beam_search_whose_texts_cannot_be_copied_ends_with_the_reason() -> None:
    with registered(FailsToStart()):
        scheduler = company()
        searching = SamplingParams(use_beam_search=True, n=2, max_tokens=5)

        class Late(FailsToStart):
            pass

        ids = scheduler.add_group(searching.replace(fails_at="later"))
        for request_id in ids:
            scheduler._requests.known[request_id].state._states["fails_to_start"] = ["fork"]
        result = model_step(scheduler)
        assert result.errors[:2] == [None, None]
        assert all("cannot be forked: fails_to_start failed" in str(e) for e in result.errors[2:])
        assert scheduler.request_ids == ["first", "second"]
        expect_sound(scheduler)


# --- steps do not nest ---------------------------------------------------------------------------


def calls(scheduler: Scheduler) -> dict[str, Callable[[], Any]]:
    """What must not be called while a step runs."""
    rows = np.zeros((1, VOCAB), np.float32)
    return {
        "step": lambda: scheduler.step(rows, ["second"]),
        "process": lambda: scheduler.process(rows, ["second"]),
        "fork": lambda: scheduler.fork("second"),
        "rollback": lambda: scheduler.rollback("second", 0),
        "prepare": lambda: scheduler.prepare(["second"]),
        "forced_tokens": lambda: scheduler.forced_tokens("second"),
        "explain": scheduler.explain,
    }


class Meddles(Sampler):
    """Does `work` in `apply`; keeps what it raises."""

    name = "meddles"
    after = "min_p"
    params = (Param("meddles", bool, False),)
    work: Callable[[], Any]

    def __init__(self) -> None:
        self.raised: list[BaseException] = []

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        try:
            self.work()
        except Exception as error:
            self.raised.append(error)


@pytest.fixture
def meddler() -> Iterator[Meddles]:
    sampler = Meddles()
    with registered(sampler):
        yield sampler


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("name", sorted(calls(make_scheduler())))
def test_a_plugin_cannot_start_a_step_within_a_step(name: str, backend: str, meddler: Meddles) -> None:
    scheduler = make_scheduler(backend=backend)
    scheduler.add(PLAIN, [1], request_id="first")
    scheduler.add(PLAIN, [1], request_id="second")
    scheduler.add(PLAIN.replace(meddles=True), [1], request_id="third")
    meddler.work = calls(scheduler)[name]
    for _ in range(70):
        scheduler.add(PLAIN, [1])
    model_step(scheduler)
    assert meddler.raised
    assert all(isinstance(e, RuntimeError) and "in the middle of a step" in str(e) for e in meddler.raised)
    run_to_end(scheduler)
    for record in (scheduler.record(i) for i in scheduler._requests.known):
        assert outcome(record) == outcome(alone(PLAIN, [1]))
    expect_sound(scheduler)


@pytest.mark.parametrize("name", sorted(calls(make_scheduler())))
def test_another_thread_cannot_start_a_step_meanwhile(name: str, meddler: Meddles) -> None:
    scheduler = company()
    scheduler.add(PLAIN.replace(meddles=True), [1], request_id="third")
    raised: list[BaseException] = []

    def work() -> None:
        def on_thread() -> None:
            try:
                calls(scheduler)[name]()
            except RuntimeError as error:
                raised.append(error)

        thread = threading.Thread(target=on_thread)
        thread.start()
        thread.join(timeout=30)

    meddler.work = work
    model_step(scheduler)
    assert raised
    assert "another thread is inside it" in str(raised[0])
    run_to_end(scheduler)
    for request_id in ("first", "second", "third"):
        assert outcome(scheduler.record(request_id)) == outcome(alone(PLAIN, [1]))


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_seventy_requests_that_a_sampler_adds_within_a_step_join_after_it(
    backend: str, meddler: Meddles
) -> None:
    scheduler = make_scheduler(backend=backend)
    scheduler.add(PLAIN.replace(meddles=True), [1], request_id="first")
    meddler.work = lambda: [scheduler.add(PLAIN, [1]) for _ in range(70)] if not others() else None

    def others() -> list[Any]:
        return [i for i in scheduler.request_ids if i != "first"]

    result = model_step(scheduler, ["first"])
    assert result.request_ids == ["first"]
    assert len(others()) == 70
    run_to_end(scheduler)
    for record in (scheduler.record(i) for i in scheduler._requests.known):
        assert outcome(record) == outcome(alone(PLAIN, [1]))


def test_a_criterion_cannot_start_a_step_while_its_request_accepts_a_token() -> None:
    scheduler = company()
    criterion = DuringCheck(lambda: model_step(scheduler))
    third = scheduler.add(PLAIN, [1], stopping_criteria=[criterion])
    scheduler.accept(third, [5])
    assert isinstance(criterion.raised, RuntimeError)
    assert scheduler.record("first").token_ids == alone(PLAIN, [1]).token_ids[:1]
    assert scheduler.record(third).token_ids == [5]


def test_a_matcher_cannot_start_a_step_while_it_is_forked_or_rolled_back() -> None:
    scheduler = company()
    raised: list[BaseException] = []

    class Matcher(ToyMatcher):
        def _step(self) -> None:
            try:
                model_step(scheduler)
            except RuntimeError as error:
                raised.append(error)

        def fork(self) -> Matcher:
            self._step()
            return Matcher(self.table)

        def rollback(self, n: int) -> None:
            self._step()
            super().rollback(n)

    one = scheduler.add(PLAIN, grammar=Matcher({"start": dict.fromkeys(range(9), "start")}))
    scheduler.accept(one, [1])
    before = scheduler.record("first")
    scheduler.fork(one)
    scheduler.rollback(one, 1)
    assert len(raised) == 2
    assert scheduler.record("first") == before


def test_a_request_added_while_a_step_begins_is_not_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = company()
    plan = scheduler._requests.plan

    def late(*arguments: Any, **keywords: Any) -> Any:
        monkeypatch.undo()
        scheduler.add(PLAIN, [1], request_id="third")
        return plan(*arguments, **keywords)

    monkeypatch.setattr(scheduler._requests, "plan", late)
    rows = rows_for(scheduler, ["first", "second", "second"])
    with pytest.raises(RequestError, match="'third' joins after the step that is running"):
        scheduler.step(rows, ["first", "second", "third"])
    expect_sound(scheduler)
    run_to_end(scheduler)
    for name in ("first", "second", "third"):
        assert outcome(scheduler.record(name)) == outcome(alone(PLAIN, [1]))


class Interrupts(Selector):
    """Raises what ends a program."""

    name = "interrupts"
    params = (Param("interrupts", bool, False),)

    def select(self, logits: np.ndarray, rows: Any) -> Any:
        raise KeyboardInterrupt


def test_an_interruption_passes_through_a_step_and_leaves_the_scheduler_usable() -> None:
    with registered(Interrupts()):
        scheduler = company()
        third = scheduler.add(PLAIN.replace(interrupts=True))
        before = digest(scheduler)
        with pytest.raises(KeyboardInterrupt):
            model_step(scheduler)
        assert digest(scheduler) == before
        scheduler.remove(third)
        run_to_end(scheduler)
        for name in ("first", "second"):
            assert outcome(scheduler.record(name)) == outcome(alone(PLAIN, [1]))
