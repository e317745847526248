"""Histories, slots, and the columns over all slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_sampler import SamplingParams
from engine_sampler.base.errors import PluginFault
from engine_sampler.contract import Chain, Rows, Sampler, Vocabulary
from engine_sampler.params import build_chain
from engine_sampler.registry import default_registry
from engine_sampler.requests.appending import AppendingInNumpy, new_appending
from engine_sampler.requests.draws import DrawnTokens
from engine_sampler.requests.history import UNBOUNDED, History
from engine_sampler.requests.slots import CheckTrigger, Slots
from engine_sampler.requests.state import RequestState

from ..interruptions.injecting import Injection, count_of

VOCABULARY = Vocabulary(50, (49,))

ids = st.lists(st.integers(0, 49), max_size=150)


def make_slots(capacity: int = 2) -> Slots:
    return Slots(VOCABULARY, default_registry().catalogue.params, capacity)


@pytest.fixture(params=[new_appending, AppendingInNumpy], ids=["fastest", "numpy"])
def appending(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Slots append with the packaged library if there is one, then without it."""
    monkeypatch.setattr("engine_sampler.requests.slots.new_appending", request.param)


by_all_means = pytest.mark.usefixtures("appending")


def make_entry(
    params: SamplingParams, prompt: Sequence[int] = (), output: Sequence[int] = ()
) -> RequestState:
    entry = RequestState(build_chain(params), History(prompt, output))
    entry.open(params, VOCABULARY)
    return entry


def put(slots: Slots, prompt: Sequence[int] = (), seed: int = 0, **settings: Any) -> int:
    params = SamplingParams(**settings)
    return slots.put(make_entry(params, prompt), params.given, seed)


# --- histories -----------------------------------------------------------------------------------


@given(prompt=ids, output=ids, more=ids)
def test_a_history_is_its_prompt_and_everything_accepted(
    prompt: list[int], output: list[int], more: list[int]
) -> None:
    history = History(prompt, output)
    history.accept(more)
    assert history.prompt_token_ids.tolist() == prompt
    assert history.output_token_ids.tolist() == output + more
    assert history.token_ids.tolist() == prompt + output + more
    assert len(history) == len(prompt + output + more)


@given(prompt=ids, output=ids, more=ids)
def test_rolling_back_accepted_tokens_restores_a_history(
    prompt: list[int], output: list[int], more: list[int]
) -> None:
    history = History(prompt, output)
    history.accept(more)
    history.rollback(len(more))
    assert history.token_ids.tolist() == prompt + output


def test_a_forked_history_grows_independently() -> None:
    parent = History([1, 2], [3])
    child = parent.fork()
    child.accept([4])
    parent.accept([5, 6])
    assert child.token_ids.tolist() == [1, 2, 3, 4]
    assert parent.token_ids.tolist() == [1, 2, 3, 5, 6]
    assert child.prompt_token_ids.tolist() == [1, 2]


# --- slots ---------------------------------------------------------------------------------------


def test_a_column_holds_the_given_values_and_neutral_ones() -> None:
    slots = make_slots()
    first = put(slots, temperature=0.5)
    early = slots.column("temperature")
    second = put(slots, top_k=7)
    assert early[[first, second]].tolist() == [0.5, 1.0]
    assert slots.column("top_k")[[first, second]].tolist() == [0, 7]


@pytest.mark.parametrize(
    ("name", "value", "dtype"),
    [
        ("temperature", 0.5, np.float64),
        ("top_k", 3, np.int64),
        ("ignore_eos", True, np.bool_),
        ("bad_words", ((1, 2), (3,)), np.object_),
        ("allowed_token_ids", (1, 2), np.object_),
    ],
)
def test_a_column_has_the_type_of_its_parameter(name: str, value: Any, dtype: Any) -> None:
    slots = make_slots()
    neutral = default_registry().catalogue.params[name].neutral
    with_value, without = put(slots, **{name: value}), put(slots)
    column = slots.column(name)
    assert column.dtype == dtype
    assert (column[with_value], column[without]) == (value, neutral)
    slots.remove(with_value)
    assert slots.column(name)[with_value] == neutral


def test_a_freed_slot_is_neutral_and_is_reused() -> None:
    slots = make_slots()
    slots.column("top_p")
    slot = put(slots, [1, 2], seed=9, top_p=0.5, temperature=0.3)
    slots.remove(slot)
    assert slots.column("top_p")[slot] == 1.0
    assert slots.entries[slot] is None
    assert put(slots, [1], seed=4, top_k=2) == slot
    assert slots.column("temperature")[slot] == 1.0
    assert (slots.seeds[slot], slots.positions[slot]) == (4, 1)


def test_slots_grow_and_keep_what_they_hold() -> None:
    slots = make_slots(capacity=2)
    slots.column("top_k")
    numbers = [put(slots, [1] * i, seed=2**64 - 1 - i, top_k=i + 1, bad_words=[i]) for i in range(9)]
    assert len(set(numbers)) == 9
    assert slots.column("top_k")[numbers].tolist() == list(range(1, 10))
    assert slots.column("bad_words")[numbers].tolist() == [((i,),) for i in range(9)]
    assert slots.seeds[numbers].tolist() == [2**64 - 1 - i for i in range(9)]
    assert slots.positions[numbers].tolist() == list(range(9))


def test_a_slot_stays_free_wherever_filling_it_fails() -> None:
    params = SamplingParams(top_k=5, stop_token_ids=[3])
    trigger = CheckTrigger(np.array([3]), 9)

    def fill(slots: Slots, entry: RequestState) -> int:
        return slots.put(entry, params.given, 7, trigger=trigger)

    for at in range(count_of(lambda: fill(make_slots(), make_entry(params, [1, 2], [3])))):
        slots, entry = make_slots(), make_entry(params, [1, 2], [3])
        put(slots, [4], top_k=6)
        slots.column("top_k")
        injection = Injection(MemoryError, at)
        injection.during(lambda: fill(slots, entry))  # noqa: B023
        if not injection.passed:
            continue
        assert (entry.history.slot, entry.history.output_token_ids.tolist()) == (-1, [3])
        assert (slots._free, slots.column("top_k").tolist()) == ([1], [6, 0])
        assert not slots.watched.any()
        assert fill(slots, entry) == 1


def test_positions_follow_accepted_and_rolled_back_tokens() -> None:
    slots = make_slots()
    slot = put(slots, [1, 2, 3])
    slots.accept(slot, [4, 5])
    assert slots.positions[slot] == 5
    slots.rollback(slot, 1)
    assert slots.positions[slot] == 4
    assert slots.entries[slot].history.output_token_ids.tolist() == [4]


def test_a_position_may_differ_from_the_length_of_the_history() -> None:
    slots = make_slots()
    params = SamplingParams()
    slot = slots.put(make_entry(params, [1, 2]), params.given, 0, position=100)
    slots.accept(slot, [3])
    assert slots.positions[slot] == 101


SETTINGS = {"repetition_penalty": 1.2, "frequency_penalty": 0.1, "penalty_last_n": 4, "mirostat": 2}


@given(prompt=ids, output=ids, cut=st.integers(0, 150))
def test_states_are_equal_however_the_output_arrived(prompt: list[int], output: list[int], cut: int) -> None:
    params = SamplingParams(**SETTINGS)
    at_once = make_entry(params, prompt, output)
    piecewise = make_entry(params, prompt, output[:cut])
    for token_id in output[cut:]:
        piecewise.accept([token_id])
    assert vars_of(at_once) == vars_of(piecewise)


@given(prompt=ids, output=ids, more=st.lists(st.integers(0, 49), min_size=1, max_size=20))
def test_accept_then_rollback_is_the_identity_and_forks_are_independent(
    prompt: list[int], output: list[int], more: list[int]
) -> None:
    entry = make_entry(SamplingParams(**SETTINGS), prompt, output)
    before = entry.history.token_ids.tolist(), vars_of(entry)
    child = entry.fork()
    child.accept(more, [3.5] * len(more))
    assert (entry.history.token_ids.tolist(), vars_of(entry)) == before
    child.rollback(len(more))
    assert (child.history.token_ids.tolist(), vars_of(child)) == before


def vars_of(entry: RequestState) -> Any:
    """The attributes of the chain's states."""
    penalties = entry.states["penalties"]
    windows = [(w.ids.tolist(), w.counts.tolist()) for w in (penalties.repeated, penalties.counted)]
    return windows, entry.states["mirostat_v2"].values


def test_the_selector_gets_its_notes() -> None:
    entry = make_entry(SamplingParams(mirostat=2, mirostat_tau=3.0, mirostat_eta=0.5))
    entry.accept([1, 2], [5.0, None])
    assert entry.states["mirostat_v2"].values == [6.0, 5.0, 5.0]


def test_a_state_that_cannot_follow_is_named() -> None:
    class Stubborn(Sampler):
        name = "stubborn"

        def new_state(self, params: Any, prompt_token_ids: Any) -> str:
            return "fixed"

        def accept(self, state: Any, token_ids: Any) -> None:
            raise ValueError("no more")

    chain = build_chain(SamplingParams())
    entry = RequestState(Chain((Stubborn(),), chain.selector), History([1]))
    entry.open(SamplingParams(), VOCABULARY)
    with pytest.raises(PluginFault, match="stubborn failed: ValueError: no more"):
        entry.accept([2])


# --- lazy states -----------------------------------------------------------------------------


class Sum(Sampler):
    """Keeps the sum of the output; fails at token 13."""

    name = "sum"

    def new_state(self, params: Any, prompt_token_ids: Any) -> list[int]:
        return [0]

    def accept(self, state: list[int], token_ids: Sequence[int]) -> None:
        if 13 in token_ids:
            raise ValueError("unlucky")
        for token in token_ids:
            state.append(state[-1] + token)

    def rollback(self, state: list[int], n: int) -> None:
        del state[len(state) - n :]


class LazySum(Sum):
    lazy = True


def entry_with(part: Sampler, output: Sequence[int] = ()) -> RequestState:
    entry = RequestState(Chain((part,), build_chain(SamplingParams()).selector), History([1], output))
    entry.open(SamplingParams(), VOCABULARY)
    return entry


def test_a_lazy_state_is_brought_up_to_date_when_it_is_read() -> None:
    eager, lazy = entry_with(Sum()), entry_with(LazySum())
    assert [part.name for part in eager.eager] == ["sum"]
    assert lazy.eager == ()
    lazy.accept([13])
    lazy.rollback(1)
    lazy.accept([1, 2])
    assert lazy.state("sum") == [0, 1, 3]
    assert lazy.state("dist") is None
    assert lazy.states == {"dist": None, "sum": [0, 1, 3]}


@given(
    output=ids,
    moves=st.lists(
        st.one_of(st.integers(0, 5), st.lists(st.tuples(st.integers(0, 49), st.floats(0, 9)), max_size=5)),
        max_size=12,
    ),
    reads=st.sets(st.integers(0, 12)),
)
def test_lazy_states_equal_eager_ones(output: list[int], moves: list[Any], reads: set[int]) -> None:
    """A move rolls tokens back, or accepts some with their notes; states are read now and then."""
    params = SamplingParams(**SETTINGS)
    entry, always = (make_entry(params, [1, 2], output) for _ in range(2))
    for i, move in enumerate(moves):
        for slot in (entry, always):
            if isinstance(move, int):
                slot.rollback(min(move, slot.history.output_length))
            else:
                slot.accept([t for t, _ in move], [n for _, n in move])
        vars_of(always)
        if i in reads:
            entry = entry.fork()
            assert vars_of(entry) == vars_of(always)
    assert vars_of(entry) == vars_of(always)


def test_a_lazy_state_that_cannot_follow_raises_whenever_it_is_read() -> None:
    entry = entry_with(LazySum(), [5])
    entry.accept([13])
    for slot in (entry, entry, entry.fork()):
        with pytest.raises(ValueError, match="unlucky"):
            slot.state("sum")
    assert entry.state("dist") is None


# --- what backends and schedulers observe ---------------------------------------------------------


class Mirror:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def filled(self, slot: int) -> None:
        self.seen.append(slot)


def test_observers_are_called_for_every_filled_slot_as_long_as_they_live() -> None:
    slots, mirror = make_slots(), Mirror()
    put(slots)
    slots.observers.add(mirror)
    numbers = [put(slots) for _ in range(5)]
    assert mirror.seen == numbers
    del mirror
    put(slots)
    assert len(slots.observers) == 0


def test_no_array_is_replaced_unless_the_offsets_are() -> None:
    names = ("seeds", "positions", "tokens", "notes", "lengths", "prompt_lengths", "epochs")
    slots, numbers = make_slots(), []
    for step in range(300):
        before, offsets = [getattr(slots, name) for name in names], slots.offsets
        if step % 10 == 0:
            numbers.append(put(slots, [1] * step))
        else:
            slots.extend(DrawnTokens.of(np.array(numbers), np.array(numbers) % 50, np.zeros(len(numbers))))
        same = [getattr(slots, name) is array for name, array in zip(names, before, strict=True)]
        assert all(same) or slots.offsets is not offsets


def due_after(slots: Slots, numbers: Sequence[int], token_ids: Sequence[int]) -> list[bool]:
    """Which of the slots must be checked after these tokens."""
    draws = DrawnTokens.of(np.array(numbers), np.array(token_ids), np.zeros(len(numbers)))
    assert slots.extend(draws) == np.count_nonzero(draws.due)
    return [bool(due) for due in draws.due]


@by_all_means
def test_tokens_are_watched_while_a_request_watches_them() -> None:
    slots = make_slots()
    entries = [make_entry(SamplingParams()) for _ in range(3)]
    watching = [CheckTrigger(np.array(watched, np.int64)) for watched in ([3, 49], [3], [0])]
    numbers = [slots.put(e, {}, 0, trigger=w) for e, w in zip(entries, watching, strict=True)]
    drawing = [put(slots) for _ in range(4)]
    assert due_after(slots, drawing, [0, 3, 49, 48]) == [True, True, True, False]
    slots.remove(numbers[0])
    assert due_after(slots, drawing, [0, 3, 49, 48]) == [True, True, False, False]
    slots.remove(numbers[1])
    slots.remove(numbers[2])
    assert due_after(slots, drawing, [0, 3, 49, 48]) == [False] * 4


@by_all_means
@pytest.mark.parametrize("token_id", [-7, -1, 50, 10**9, -(2**63)])
def test_a_token_outside_the_vocabulary_keeps_all_others_out(token_id: int) -> None:
    slots = make_slots()
    numbers = [put(slots, [1]) for _ in range(3)]
    draws = DrawnTokens.of(np.array(numbers), np.array([4, token_id, 6]), np.zeros(3))
    assert slots.extend(draws) == -1
    assert slots.lengths[numbers].tolist() == slots.positions[numbers].tolist() == [1, 1, 1]
    assert slots.extend(draws, [1]) == 0
    assert slots.lengths[numbers].tolist() == slots.positions[numbers].tolist() == [2, 1, 2]


@by_all_means
def test_refused_tokens_do_not_join_and_need_no_check() -> None:
    slots = make_slots()
    triggers = CheckTrigger(always=True), CheckTrigger(always=True), CheckTrigger()
    numbers = [slots.put(make_entry(SamplingParams()), {}, 0, trigger=trigger) for trigger in triggers]
    draws = DrawnTokens.of(np.array(numbers), np.array([1, 2, 3]), np.zeros(3))
    assert slots.extend(draws, [0]) == 1
    assert draws.due.tolist() == [False, True, False]
    histories = [slots.entries[number].history.token_ids.tolist() for number in numbers]
    assert histories == [[], [2], [3]]


def test_a_freed_slot_needs_no_check() -> None:
    slots = make_slots()
    slot = slots.put(make_entry(SamplingParams()), {}, 0, trigger=CheckTrigger(length=7, always=True))
    assert (slots.limits[slot], slots.always[slot]) == (7, True)
    slots.remove(slot)
    assert (slots.limits[slot], slots.always[slot]) == (UNBOUNDED, False)


@by_all_means
def test_slots_are_due_from_their_limits_on() -> None:
    slots = make_slots()
    limits = [5, UNBOUNDED, 4, 9]
    numbers = [
        slots.put(make_entry(SamplingParams(), [1, 2]), {}, 0, trigger=CheckTrigger(length=n)) for n in limits
    ]
    chance = np.random.default_rng(1)
    for _ in range(300):
        some = chance.permutation(numbers)[: chance.integers(1, 5)]
        move = chance.integers(3)
        if move == 0:
            due = due_after(slots, some.tolist(), some.tolist())
            assert due == [bool(slots.lengths[n] >= limits[numbers.index(n)]) for n in some.tolist()]
        elif move == 1:
            slots.append(int(some[0]), [1] * int(chance.integers(3)))
        else:
            slots.rollback(int(some[0]), int(slots.lengths[some[0]] - 2))


@by_all_means
def test_appending_to_many_slots_at_once_equals_appending_one_by_one() -> None:
    together, singly = make_slots(), make_slots()
    numbers = [[put(slots, [1] * i, mirostat=2) for i in range(9)] for slots in (together, singly)]
    assert numbers[0] == numbers[1]
    for step in range(100):
        some = np.array(numbers[0][step % 3 :])
        tokens, notes = (some * step) % 50, np.where(some % 2 == 0, np.nan, some / 7 + step)
        together.extend(DrawnTokens.of(some, tokens, notes))
        for number, token, note in zip(some.tolist(), tokens.tolist(), notes.tolist(), strict=True):
            singly.accept(number, [token], [None if np.isnan(note) else note])
    assert together.lengths.tolist() == singly.lengths.tolist()
    assert together.positions.tolist() == singly.positions.tolist()
    for number in numbers[0]:
        pair = [slots.entries[number] for slots in (together, singly)]
        assert pair[0].history.token_ids.tolist() == pair[1].history.token_ids.tolist()
        assert pair[0].states["mirostat_v2"] == pair[1].states["mirostat_v2"]


# --- rows ----------------------------------------------------------------------------------------


def test_rows_read_their_slots() -> None:
    slots = make_slots()
    a, b = put(slots, [1, 2], seed=5, top_k=3), put(slots, [4], seed=6)
    rows = Rows(slots, np.array([b, a]))
    assert rows["top_k"].tolist() == [0, 3]
    assert rows.seed.tolist() == [6, 5]
    assert rows.position.tolist() == [1, 2]
    assert rows.prompt_token_ids(1).tolist() == [1, 2]
    assert rows.output_token_ids(0).tolist() == []
