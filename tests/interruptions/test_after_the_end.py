"""What an engine finds after an interruption, and interruptions by real signals."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.contract import hookimpl
from engine_sampler.session import Session

from ..engines import registered_plugin
from ..stateful.checks import expect_sound
from ..stateful.plugins import plugins
from ..stateful.workload import BACKENDS, ENGINES, VOCAB, model_row
from .injecting import Injection
from .scenes import outcomes, rows_of, scene, step


class Observing:
    """Calls `at_step` when a step has been done."""

    name = "observing"

    def __init__(self, at_step: Callable[[], Any]) -> None:
        self.at_step = at_step

    def step_finished(self, result: Any) -> None:
        self.at_step()

    @hookimpl
    def register_observers(self, register: Any) -> None:
        register(self)


def raising(error: type[BaseException]) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


def plain(**keywords: Any) -> Scheduler:
    scheduler = Scheduler(VOCAB)
    scheduler.add(SamplingParams(seed=4, max_tokens=8, **keywords), [3], request_id="one")
    return scheduler


def test_an_observer_that_would_end_the_program_does_not_lose_the_result() -> None:
    with registered_plugin(Observing(raising(SystemExit))):
        scheduler = plain()
        result = step(scheduler)
    assert result.token_ids.tolist() == scheduler.record("one").token_ids


def test_a_step_interrupted_while_observers_are_told_leaves_its_result() -> None:
    scheduler = plain()
    with registered_plugin(Observing(raising(KeyboardInterrupt))), pytest.raises(KeyboardInterrupt):
        step(scheduler)
    assert scheduler.last_result is not None
    assert scheduler.last_result.token_ids.tolist() == scheduler.record("one").token_ids


def test_a_step_that_was_not_done_leaves_the_result_before_it() -> None:
    scheduler = plain()
    assert scheduler.last_result is None
    first = step(scheduler)
    logits = rows_of(scheduler, scheduler.request_ids)
    injection = Injection(KeyboardInterrupt, 60)
    injection.during(lambda: scheduler.step(logits))
    assert injection.passed
    assert scheduler.last_result is first
    assert len(scheduler.record("one").token_ids) == 1


class Model(Session):
    """A session with the model of the tests."""

    def encode(self, prompt: str) -> list[int]:
        return [3, 4]

    def forward(self, contexts: Mapping[Any, list[int]]) -> Any:
        return np.array([model_row(context) for context in contexts.values()])


@pytest.mark.parametrize("done", [False, True])
def test_a_session_goes_on_after_an_interrupted_step(done: bool) -> None:
    alone, session = (Model(Scheduler(VOCAB)) for _ in range(2))
    for model in (alone, session):
        model.add(SamplingParams(seed=4, max_tokens=8), "", "one")
        model.step()
    if done:
        with registered_plugin(Observing(raising(KeyboardInterrupt))), pytest.raises(KeyboardInterrupt):
            session.step()
    else:
        Injection(KeyboardInterrupt, 80).during(session.step)
    for model in (alone, session):
        while model.scheduler.request_ids:
            model.step()
    assert session.scheduler.record("one") == alone.scheduler.record("one")


@pytest.fixture
def own_plugins() -> Iterator[None]:
    with plugins():
        yield


def interrupt_step(number: int, frame: FrameType | None) -> None:
    """Interrupt a step, and nothing else: a signal that comes after it would end the tests."""
    while frame is not None and frame.f_code is not Scheduler.step.__code__:
        frame = frame.f_back
    if frame is not None:
        raise KeyboardInterrupt


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signal.setitimer")
@pytest.mark.usefixtures("own_plugins")
def test_steps_that_signals_interrupt_give_the_tokens_of_steps_that_none_does() -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")
    random = np.random.default_rng(3)
    calm, interrupted = (scene(BACKENDS[-1], ENGINES[-1]) for _ in range(2))
    before = signal.signal(signal.SIGALRM, interrupt_step)
    gc.disable()  # what is raised while it calls others is lost
    try:
        for _ in range(60):
            if not interrupted.request_ids:
                break
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, float(random.uniform(1e-4, 6e-3)))
                step(interrupted)
            signal.setitimer(signal.ITIMER_REAL, 0)
            expect_sound(interrupted)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()
        signal.signal(signal.SIGALRM, before)
    for scheduler in (calm, interrupted):
        scheduler.remove("table")  # its matcher, an object of the tests, may have been interrupted itself
    assert outcomes(interrupted) == outcomes(calm)
