"""Rows are grouped by the shape of their configuration; groups are kept while nobody comes or goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Vocabulary
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Chain
from engine_sampler.registry import default_registry
from engine_sampler.scheduler.grouping import Grouping
from engine_sampler.scheduler.history import AMPLE, History
from engine_sampler.scheduler.request import Request
from engine_sampler.scheduler.slots import Slots

from ..engines import ToyMatcher, make_scheduler, model_step

VOCABULARY = Vocabulary(40, (39,))


class CountingBackend(NumpyBackend):
    """Counts how often it is asked for a plan."""

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


def seated(slots: Slots, matcher: Any = None, **settings: Any) -> Request:
    params = SamplingParams(**settings)
    request = Request("r", params, History([1]), VOCABULARY, matcher=matcher)
    request.slot = slots.put(request.entry, params.given, request.seed, attention=request.attention())
    return request


def test_values_do_not_split_groups_but_shapes_do(slots: Slots, backend: CountingBackend) -> None:
    requests = [
        seated(slots, temperature=0.7),
        seated(slots, top_k=3),
        seated(slots, temperature=0.9),
        seated(slots, temperature=0.9, top_k=3),
        seated(slots, top_k=300),
    ]
    members = Grouping(slots, backend).roster(requests).members
    assert [m.places.tolist() for m in members] == [[0, 2], [1, 4], [3]]
    assert members[0].rows["temperature"].tolist() == [0.7, 0.9]


def test_grammars_and_processed_logprobs_make_groups_of_their_own(
    slots: Slots, backend: CountingBackend
) -> None:
    requests = [
        seated(slots),
        seated(slots, matcher=ToyMatcher({})),
        seated(slots, logprobs=1, logprobs_mode="processed"),
        seated(slots, logprobs=1),
    ]
    groups = Grouping(slots, backend).roster(requests).groups(np.array([7, 5, 3, 1]))
    assert [g.index.tolist() for g in groups] == [[7, 1], [5], [3]]
    assert [g.masked for g in groups] == [False, True, False]
    assert [g.want_processed for g in groups] == [False, False, True]


def test_a_greedy_choice_needs_no_samplers_unless_the_processed_row_is_wanted(
    slots: Slots, backend: CountingBackend
) -> None:
    plain = seated(slots, temperature=0, top_k=5)
    asked = seated(slots, temperature=0, top_k=5, logprobs=1, logprobs_mode="processed")
    grouping = Grouping(slots, backend)
    assert grouping.configuration(plain).chain.key == ("greedy",)
    assert grouping.configuration(asked).chain.key == ("top_k", "temperature", "greedy")


def test_a_roster_is_kept_while_it_is_asked_for_with_the_same_list(
    slots: Slots, backend: CountingBackend
) -> None:
    requests = [seated(slots), seated(slots, top_k=3)]
    grouping = Grouping(slots, backend)
    first = grouping.roster(requests)
    assert grouping.roster(requests) is first
    assert first.groups(first.places) is first.groups(first.places)
    other = grouping.roster(requests[::-1])
    assert other is not first
    assert [m.places.tolist() for m in other.members] == [[0], [1]]


def test_a_roster_knows_who_needs_what(slots: Slots, backend: CountingBackend) -> None:
    requests = [
        seated(slots),
        seated(slots, matcher=ToyMatcher({}), max_tokens=5),
        seated(slots, logprobs=1, max_time=3.0),
    ]
    roster = Grouping(slots, backend).roster(requests)
    assert roster.slots.tolist() == [r.slot for r in requests]
    assert roster.always is not None
    assert roster.always.tolist() == [False, False, True]
    assert (roster.masked, roster.scored, roster.streamed) == ([1], [2], [])
    assert slots.limits[roster.slots].tolist() == [AMPLE, 6, AMPLE]


def test_a_configuration_is_compiled_once(slots: Slots, backend: CountingBackend) -> None:
    grouping = Grouping(slots, backend)
    for top_k in (3, 4, 5):
        grouping.roster([seated(slots, top_k=top_k)])
    assert backend.compiled == [("top_k", "dist")]


def test_a_slot_that_changes_hands_is_grouped_anew(slots: Slots, backend: CountingBackend) -> None:
    grouping = Grouping(slots, backend)
    old = seated(slots, temperature=0.5)
    assert grouping.roster([old]).members[0].rows["temperature"].tolist() == [0.5]
    slots.remove(old.slot)
    grouping.forget()
    new = seated(slots, temperature=0.25)
    assert new.slot == old.slot
    assert grouping.roster([new]).members[0].rows["temperature"].tolist() == [0.25]


def test_no_requests_make_no_groups_even_after_the_last_has_left(
    slots: Slots, backend: CountingBackend
) -> None:
    grouping = Grouping(slots, backend)
    request = seated(slots)
    grouping.roster([request])
    slots.remove(request.slot)
    grouping.forget()
    nobody = grouping.roster([])
    assert nobody.groups(nobody.places) == []


def test_a_scheduler_groups_anew_only_when_its_requests_change(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    some = Grouping.some
    monkeypatch.setattr(Grouping, "some", lambda self, rs: made.append(len(rs)) or some(self, rs))
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
