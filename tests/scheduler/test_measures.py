"""Observers are told what each step did, and only if they want to know."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import StepMeasures
from engine_sampler.requests.results import StepResult

from ..engines import observed

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
