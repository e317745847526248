"""Requests as they will be if their drafts are right: seen by rows, while the requests stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams
from engine_sampler.contract import Rows, Vocabulary
from engine_sampler.params import build_chain
from engine_sampler.registry import default_registry
from engine_sampler.requests.drafted import DraftedSlots
from engine_sampler.requests.history import History
from engine_sampler.requests.slots import Slots
from engine_sampler.requests.state import RequestState

VOCABULARY = Vocabulary(50)
GIVEN: dict[str, Any] = {"frequency_penalty": 0.5, "min_p": 0.25}


def slots_with(*outputs: list[int]) -> Slots:
    """A request with each output, seeded by its slot."""
    slots, params = Slots(VOCABULARY, default_registry().catalogue.params), SamplingParams(**GIVEN)
    for seed, output in enumerate(outputs):
        state = RequestState(build_chain(params), History([1, 2], output))
        state.open(params, VOCABULARY)
        slots.put(state, params.given, seed)
    return slots


def rows_with_draft(slots: Slots, draft: list[int]) -> Rows:
    """A row for each beginning of a draft behind the request in slot 1."""
    slots.pool.write_ahead(1, draft)
    leads = np.arange(len(draft) + 1)
    table = DraftedSlots(slots, np.ones(len(leads), np.int64), leads)
    table.begin()
    return Rows(table, leads)


def test_rows_see_histories_positions_and_parameters() -> None:
    slots = slots_with([3], [4, 5])
    rows = rows_with_draft(slots, [7, 8])
    assert [rows.output_token_ids(i).tolist() for i in range(3)] == [[4, 5], [4, 5, 7], [4, 5, 7, 8]]
    assert rows.token_ids(2).tolist() == [1, 2, 4, 5, 7, 8]
    assert rows.prompt_token_ids(2).tolist() == [1, 2]
    assert rows.position.tolist() == [4, 5, 6]
    assert rows.seed.tolist() == [1, 1, 1]
    assert rows["min_p"].tolist() == [0.25] * 3
    assert rows.slots is slots
    assert rows.slot_numbers.tolist() == [1, 1, 1]
    assert rows.drafted is not None
    assert rows.drafted.tolist() == [0, 1, 2]
    assert rows.table.lengths.tolist() == [4, 5, 6]


def test_states_have_followed_the_draft_in_copies() -> None:
    slots = slots_with([3], [4, 5])
    rows = rows_with_draft(slots, [4, 8])
    penalties = next(s for s in slots.entries[1].chain.samplers if s.name == "penalties")
    states = rows.bind(penalties).states
    assert [state.counted.ids.tolist() for state in states] == [[4, 5], [4, 5], [4, 5, 8]]
    assert [state.counted.counts.tolist() for state in states] == [[1, 1], [2, 1], [2, 1, 1]]
    assert slots.entries[1].state("penalties").counted.counts.tolist() == [1, 1]


def test_each_row_follows_one_token_from_the_row_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    slots, followed = slots_with([3], [4, 5]), []
    rows = rows_with_draft(slots, [4, 8, 9, 4])
    penalties = next(s for s in slots.entries[1].chain.samplers if s.name == "penalties")
    accept = type(penalties).accept

    def counting(self: Any, state: Any, token_ids: Any) -> None:
        followed.append(list(token_ids))
        accept(self, state, token_ids)

    assert rows.bind(penalties).states[0].counted.counts.tolist() == [1, 1]
    rows.table.begin()  # type: ignore[attr-defined]
    monkeypatch.setattr(type(penalties), "accept", counting)
    assert rows.bind(penalties).states[4].counted.counts.tolist() == [3, 1, 1, 1]
    assert followed == [[4], [8], [9], [4]]


def test_a_draft_leaves_no_trace() -> None:
    slots = slots_with([3], [4, 5])
    draft = list(range(40)) * 5  # there is no room for it, so that the region moves
    rows_with_draft(slots, draft)
    assert slots.entries[1].history.output_token_ids.tolist() == [4, 5]
    assert slots.entries[0].history.token_ids.tolist() == [1, 2, 3]
    slots.accept(1, [9])
    slots.accept(0, [6])
    assert slots.entries[1].history.output_token_ids.tolist() == [4, 5, 9]
    assert slots.entries[0].history.token_ids.tolist() == [1, 2, 3, 6]
    assert slots.positions[:2].tolist() == [4, 5]


def test_the_next_draft_takes_the_place_of_the_last() -> None:
    slots = slots_with([3], [4, 5])
    rows = rows_with_draft(slots, [7, 8])
    penalties = next(s for s in slots.entries[1].chain.samplers if s.name == "penalties")
    assert rows.bind(penalties).states[2].counted.ids.tolist() == [4, 5, 7, 8]
    slots.accept(1, [7])
    slots.pool.write_ahead(1, [9, 9])
    rows.table.begin()
    assert rows.output_token_ids(2).tolist() == [4, 5, 7, 9, 9]
    assert rows.bind(penalties).states[2].counted.ids.tolist() == [4, 5, 7, 9]
