"""Observers are told what happens to the requests of each scheduler and what each step did, and only if they
want to know."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.backends.host_run import HostRun
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import ParameterError, StepMeasures, hookimpl
from engine_sampler.grammar.service import GrammarCompiler
from engine_sampler.registry import EVENTS
from engine_sampler.requests.results import StepResult

from ..engines import observed, registered_plugin

VOCAB_SIZE = 40
TOKENIZER = Tokenizer([bytes([i + 48]) for i in range(VOCAB_SIZE)], [39])


def logits_for(tokens: list[int]) -> np.ndarray:
    rows = np.zeros((len(tokens), VOCAB_SIZE), np.float32)
    rows[np.arange(len(tokens)), tokens] = 9
    return rows


def step_once(scheduler: Scheduler, rows: np.ndarray, **options: Any) -> StepMeasures:
    with observed("step_measured") as seen:
        scheduler.step(rows, **options)
    (measures,) = seen
    assert isinstance(measures, StepMeasures)
    return measures


def test_a_step_is_measured_with_its_rows_tokens_and_faults() -> None:
    scheduler = Scheduler(VOCAB_SIZE)
    for _ in range(3):
        scheduler.add(SamplingParams(temperature=0))
    rows = logits_for([1, 2, 3])
    rows[1] = np.nan
    measures = step_once(scheduler, rows)
    assert (measures.rows, measures.tokens, measures.faults, measures.postponed) == (3, 2, 1, 0)
    assert measures.backend == scheduler.backend.name  # type: ignore[union-attr]
    assert measures.seconds > 0 == measures.mask_seconds
    assert measures.drafted == measures.accepted == ()


def test_drafts_are_measured_by_position() -> None:
    scheduler = Scheduler(VOCAB_SIZE)
    ids = [scheduler.add(SamplingParams(temperature=0)) for _ in range(3)]
    rows = logits_for([1, 2, 3, 4, 5, 6, 7])
    drafts = {ids[0]: [1, 9], ids[1]: [4, 5]}
    measures = step_once(scheduler, rows, draft_token_ids=drafts)
    assert (measures.drafted, measures.accepted) == ((2, 2), (2, 1))
    assert (measures.rows, measures.tokens) == (7, 6)


def test_a_request_that_has_left_is_neither_a_fault_nor_postponed() -> None:
    scheduler = Scheduler(VOCAB_SIZE)
    ids = [scheduler.add(SamplingParams(temperature=0)) for _ in range(2)]
    scheduler.remove(ids[0])
    measures = step_once(scheduler, logits_for([1, 2]), request_ids=ids)
    assert (measures.tokens, measures.faults, measures.postponed) == (1, 0, 0)


def test_masks_that_prepare_fills_count_for_the_step_after_it() -> None:
    scheduler = Scheduler(VOCAB_SIZE, TOKENIZER)
    scheduler.add(SamplingParams(regex="[1-3]{4}"))
    scheduler.prepare()
    assert step_once(scheduler, logits_for([1])).mask_seconds > 0


@pytest.mark.parametrize("events", [(), ("request_added", "request_finished")])
def test_nothing_is_measured_or_copied_that_no_observer_wants(
    events: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*values: Any) -> None:
        raise AssertionError("this is for observers only")

    monkeypatch.setattr("engine_sampler.scheduler.runner.step_measures", refuse)
    monkeypatch.setattr(StepResult, "copied", refuse)
    with observed(*events) if events else contextlib.nullcontext():
        scheduler = Scheduler(VOCAB_SIZE)
        scheduler.add(SamplingParams(temperature=0))
        scheduler.step(logits_for([1]))


def test_rows_that_bounds_decide_are_counted_apart_from_those_that_are_weighed() -> None:
    scheduler = Scheduler(2000, backend="native")
    for settings in ({}, {"top_p": 0.9}, {"top_p": 0.9}, {"min_p": 0.1}):
        scheduler.add(SamplingParams(**settings, temperature=1.0, seed=1))
    rows = np.zeros((4, 2000), np.float32)
    rows[:2, 7] = 12  # the others are flat
    for _ in range(2):
        measures = step_once(scheduler, rows)
        assert (measures.certain, measures.weighed) == (2, 1)


def test_decisions_that_a_backend_cannot_count_count_as_none() -> None:
    class Confused(NumpyBackend):
        name = "confused"

        def decisions(self, slots: Any, plan: Any = None) -> tuple[int, int]:
            raise RuntimeError("lost count")

    scheduler = Scheduler(VOCAB_SIZE, backend=Confused())
    scheduler.add(SamplingParams(temperature=0))
    measures = step_once(scheduler, logits_for([1]))
    assert (measures.tokens, measures.certain, measures.weighed) == (1, 0, 0)


# --- whose events they are -----------------------------------------------------------------------


class Log:
    """Writes down the events of each scheduler, with the id of the request."""

    name = "log"

    def __init__(self) -> None:
        self.events: dict[str, list[Any]] = {}
        for event in EVENTS:
            setattr(self, event, partial(self.write, event))

    @hookimpl
    def register_observers(self, register: Any) -> None:
        register(self)

    def write(self, event: str, *values: Any, scheduler: str) -> None:
        is_bare = isinstance(values[0], int)
        shown = values[0] if is_bare else getattr(values[0], "request_id", None)
        self.events.setdefault(scheduler, []).append((event, shown))

    def of(self, scheduler: Scheduler) -> list[Any]:
        """The events of a scheduler about single requests."""
        return [one for one in self.events[scheduler.name] if one[1] is not None]


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    with registered_plugin(log):
        yield log


def test_two_schedulers_with_requests_of_the_same_ids_are_told_apart(log: Log) -> None:
    long, short = Scheduler(VOCAB_SIZE, name="long"), Scheduler(VOCAB_SIZE)
    for scheduler, tokens in ((long, 2), (short, 1)):
        scheduler.add(SamplingParams(temperature=0, max_tokens=tokens))
    short.step(logits_for([1]))
    for _ in range(2):
        long.step(logits_for([1]))
    expected = [("request_added", 0), ("first_token", 0), ("request_finished", 0)]
    assert log.of(long) == log.of(short) == expected
    steps = [event for event, _ in log.events["long"] if event.startswith("step_")]
    assert steps == ["step_measured", "step_finished"] * 2


def test_schedulers_without_a_name_have_different_ones() -> None:
    assert Scheduler(4).name != Scheduler(4).name


@pytest.mark.parametrize("name", ["", "x" * 101, 7])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(ParameterError, match=r"name=.* is not allowed: 1 to 100 characters"):
        Scheduler(4, name=name)


def test_a_request_that_pauses_is_told_and_begins_once(log: Log) -> None:
    scheduler = Scheduler(VOCAB_SIZE)
    scheduler.add(SamplingParams(temperature=0))
    scheduler.step(logits_for([1]))
    scheduler.suspend(0)
    scheduler.resume(0)
    scheduler.step(logits_for([2]))
    child = scheduler.fork(0)
    scheduler.step(logits_for([3, 3]))
    scheduler.remove(child)
    assert log.of(scheduler) == [
        ("request_added", 0),
        ("first_token", 0),
        ("request_suspended", 0),
        ("request_resumed", 0),
        ("request_added", child),
        ("request_finished", child),
    ]


def test_output_that_a_request_brings_is_not_its_first_token_but_accepted_tokens_are(log: Log) -> None:
    scheduler = Scheduler(VOCAB_SIZE)
    scheduler.add(SamplingParams(temperature=0), output_token_ids=[3])
    scheduler.add(SamplingParams(temperature=0, max_tokens=2))
    scheduler.accept(1, [5, 6])
    scheduler.step(logits_for([1]))
    assert [one for one in log.of(scheduler) if one[0] != "request_added"] == [
        ("first_token", 1),
        ("request_finished", 1),
    ]


def test_grammars_and_rows_on_the_host_have_the_name_of_their_scheduler(log: Log) -> None:
    class Elsewhere(NumpyBackend):
        name = "elsewhere"
        hosts_the_rest = True

        def run(self, batch: Any) -> None:
            host = HostRun(self.name)
            host.run(batch, batch.groups, "declined")
            host.tell()

    with GrammarCompiler() as compiler:
        for scheduler in (
            Scheduler(VOCAB_SIZE, TOKENIZER, backend=Elsewhere(), name="at once"),
            Scheduler(VOCAB_SIZE, TOKENIZER, grammar_compiler=compiler, name="in turn"),
        ):
            scheduler.add(SamplingParams(regex=f"[1-3]{{{len(scheduler.name)}}}"))
            scheduler.wait_ready(60)
            scheduler.step(logits_for([1]), scheduler.request_ids)
    assert ("grammar_compiled", None) in log.events["in turn"]
    assert {("grammar_compiled", None), ("rows_on_host", None)} < set(log.events["at once"])


def test_an_observer_that_takes_no_name_is_told_as_before() -> None:
    with observed("request_added", "step_finished") as seen:
        scheduler = Scheduler(VOCAB_SIZE)
        params = SamplingParams(temperature=0)
        scheduler.add(params)
        result = scheduler.step(logits_for([1]))
    assert seen[0] == (0, params)
    assert seen[1].token_ids.tolist() == result.token_ids.tolist()
