"""Rows are grouped by the shape of their configuration; groups are cached until a request joins or leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Chain, Vocabulary
from engine_sampler.registry import default_registry
from engine_sampler.requests.history import UNBOUNDED, History
from engine_sampler.requests.request import Request
from engine_sampler.requests.slots import Slots
from engine_sampler.scheduler.grouping import Grouping
from engine_sampler.scheduler.input_batch import InputBatch

from ..engines import ToyMatcher, make_scheduler, model_step

VOCABULARY = Vocabulary(40, (39,))


class CountingBackend(NumpyBackend):
    """Counts how often it compiles a plan."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[Any] = []

    def compile(self, chain: Chain) -> Chain:
        self.compiled.append(chain.key)
        return super().compile(chain)


@pytest.fixture
def slots() -> Slots:
    return Slots(VOCABULARY, default_registry().catalogue.params)


@pytest.fixture
def backend() -> CountingBackend:
    return CountingBackend()


def with_slot(slots: Slots, matcher: Any = None, **settings: Any) -> Request:
    params = SamplingParams(**settings)
    request = Request("r", params, History([1]), VOCABULARY, matcher=matcher)
    request.slot = slots.put(request.state, params.given, request.seed, trigger=request.check_trigger())
    return request


def test_values_do_not_split_groups_but_shapes_do(slots: Slots, backend: CountingBackend) -> None:
    requests = [
        with_slot(slots, temperature=0.7),
        with_slot(slots, top_k=3),
        with_slot(slots, temperature=0.9),
        with_slot(slots, temperature=0.9, top_k=3),
        with_slot(slots, top_k=300),
    ]
    members = Grouping(slots, backend).members(InputBatch(slots, requests))
    assert [m.indices.tolist() for m in members] == [[0, 2], [1, 4], [3]]
    assert members[0].rows["temperature"].tolist() == [0.7, 0.9]


def test_grammars_and_processed_logprobs_form_separate_groups(slots: Slots, backend: CountingBackend) -> None:
    requests = [
        with_slot(slots),
        with_slot(slots, matcher=ToyMatcher({})),
        with_slot(slots, logprobs=1, logprobs_mode="processed"),
        with_slot(slots, logprobs=1),
    ]
    groups = Grouping(slots, backend).groups(
        InputBatch(slots, requests), np.array([7, 5, 3, 1]), is_whole=False
    )
    assert [g.index.tolist() for g in groups] == [[7, 1], [5], [3]]
    assert [g.masked for g in groups] == [False, True, False]
    assert [g.want_processed for g in groups] == [False, False, True]


def test_a_greedy_choice_needs_no_samplers_unless_the_processed_row_is_requested(
    slots: Slots, backend: CountingBackend
) -> None:
    plain = with_slot(slots, temperature=0, top_k=5)
    recorded = with_slot(slots, temperature=0, top_k=5, logprobs=1, logprobs_mode="processed")
    grouping = Grouping(slots, backend)
    assert grouping.configuration(plain).chain.key == ("greedy",)
    assert grouping.configuration(recorded).chain.key == ("top_k", "temperature", "greedy")


def test_the_groups_of_a_batch_are_cached_with_it(slots: Slots, backend: CountingBackend) -> None:
    requests = [with_slot(slots), with_slot(slots, top_k=3)]
    grouping = Grouping(slots, backend)
    batch, other = InputBatch(slots, requests), InputBatch(slots, requests[::-1])
    assert grouping.members(batch) is grouping.members(batch)
    first, second = (grouping.groups(batch, batch.places, is_whole=True) for _ in range(2))
    assert first is second
    assert [m.indices.tolist() for m in grouping.members(other)] == [[0], [1]]


def test_a_batch_lists_the_requests_that_need_more_than_a_token(slots: Slots) -> None:
    requests = [
        with_slot(slots),
        with_slot(slots, matcher=ToyMatcher({}), max_tokens=5),
        with_slot(slots, logprobs=1, max_time=3.0),
    ]
    batch = InputBatch(slots, requests)
    assert batch.slots.tolist() == [r.slot for r in requests]
    assert slots.always[batch.slots].tolist() == [False, False, True]
    assert (batch.masked, batch.scored, batch.streamed) == ([1], [2], [])
    assert slots.limits[batch.slots].tolist() == [UNBOUNDED, 6, UNBOUNDED]


def test_a_configuration_is_compiled_once(slots: Slots, backend: CountingBackend) -> None:
    grouping = Grouping(slots, backend)
    for top_k in (3, 4, 5):
        grouping.members(InputBatch(slots, [with_slot(slots, top_k=top_k)]))
    assert backend.compiled == [("top_k", "dist")]


def test_a_slot_that_changes_hands_is_grouped_again(slots: Slots, backend: CountingBackend) -> None:
    grouping = Grouping(slots, backend)
    old = with_slot(slots, temperature=0.5)
    assert grouping.members(InputBatch(slots, [old]))[0].rows["temperature"].tolist() == [0.5]
    slots.remove(old.slot)
    new = with_slot(slots, temperature=0.25)
    assert new.slot == old.slot
    assert grouping.members(InputBatch(slots, [new]))[0].rows["temperature"].tolist() == [0.25]


def test_no_requests_form_no_groups_even_after_the_last_has_left(
    slots: Slots, backend: CountingBackend
) -> None:
    grouping = Grouping(slots, backend)
    request = with_slot(slots)
    grouping.members(InputBatch(slots, [request]))
    slots.remove(request.slot)
    empty = InputBatch(slots, [])
    assert grouping.groups(empty, empty.places, is_whole=True) == []


def test_a_scheduler_groups_again_only_when_its_requests_change(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    group = Grouping._by_configuration
    monkeypatch.setattr(
        Grouping, "_by_configuration", lambda self, batch: made.append(len(batch)) or group(self, batch)
    )
    scheduler = make_scheduler()
    for seed in range(3):
        scheduler.add(SamplingParams(seed=seed, logit_bias={39: -100.0}))
    for _ in range(4):
        model_step(scheduler)
    assert made == [3]
    scheduler.remove(1)
    model_step(scheduler)
    scheduler.add(SamplingParams(seed=3, logit_bias={39: -100.0}))
    model_step(scheduler)
    assert made == [3, 2, 3]
    model_step(scheduler, [3, 0])
    model_step(scheduler, (3, 0))
    assert made == [3, 2, 3, 2]
    model_step(scheduler)
    assert made == [3, 2, 3, 2, 3]
