"""What it costs to join and to leave: not more for what the request has said than one copy of its prompt."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, Record, SamplingParams, Scheduler
from engine_sampler.contract import hookimpl
from engine_sampler.requests.history import TokenPool

from ..engines import make_scheduler, model_step, registered_plugin

VOCAB = 131_072
LENGTH = 32_768
SETTINGS: tuple[dict[str, Any], ...] = (
    {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8},
    {"repetition_penalty": 1.1, "frequency_penalty": 0.1, "penalty_scope": "all", "penalty_last_n": 9000},
    {"dry_multiplier": 0.8, "no_repeat_ngram_size": 3, "max_tokens": 5, "logprobs": 2},
)


@pytest.fixture(autouse=True)
def tracing() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def peak_of(work: Callable[[], Any]) -> int:
    """The bytes that `work` holds at most, besides those that are in use before it."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    work()
    return tracemalloc.get_traced_memory()[1] - before


def scheduler_with_company(backend: str) -> Scheduler:
    """A scheduler that has had a long request, and has another one that has made a step."""
    scheduler = Scheduler(VOCAB, backend=backend, eos_token_ids=[2])
    scheduler.add(SamplingParams(seed=1), [5, 6])
    scheduler.add(SamplingParams(seed=1), np.arange(LENGTH), request_id="gone")
    scheduler.remove("gone")
    scheduler.step(np.zeros((1, VOCAB), np.float32))
    return scheduler


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_joining_copies_an_array_once_and_leaving_copies_no_prompt(
    backend: str, settings: dict[str, Any]
) -> None:
    scheduler, prompt = scheduler_with_company(backend), np.arange(LENGTH)[::-1]
    params = SamplingParams(seed=1, **settings)
    scheduler.remove(scheduler.add(params, prompt))  # whatever is made only once
    joining = peak_of(lambda: scheduler.add(params, prompt, request_id="guest"))
    assert prompt.nbytes <= joining < 1.2 * prompt.nbytes
    kept: list[Record] = []
    assert peak_of(lambda: kept.append(scheduler.remove("guest"))) < 0.1 * prompt.nbytes
    assert kept[0].prompt_token_ids == prompt.tolist()


def test_a_sibling_shares_the_prompt_outside_of_the_pool() -> None:
    scheduler, prompt = scheduler_with_company("numpy"), np.arange(LENGTH)
    ids = scheduler.add_group(SamplingParams(seed=1, n=4), prompt)
    prompts = [scheduler._requests.known[i].state.history.prompt_token_ids for i in ids]
    assert all(p is prompts[0] for p in prompts)


# --- records -------------------------------------------------------------------------------------


def test_a_record_shows_the_moment_it_was_asked_for() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(seed=1, ignore_eos=True), [7, 8], request_id="a")
    records = [scheduler.record("a")]
    for _ in range(5):
        model_step(scheduler)
        records.append(scheduler.record("a"))
    last = scheduler.remove("a")
    for _ in range(20):  # others get its cells
        scheduler.add(SamplingParams(seed=2), [9] * 3)
    assert [len(r.token_ids) for r in records] == [0, 1, 2, 3, 4, 5]
    assert [r.token_ids for r in records] == [last.token_ids[:n] for n in range(6)]
    assert all(r.prompt_token_ids == [7, 8] for r in records)
    assert all((last.text or "").startswith(r.text or "") for r in records)
    assert [r.finish_reason for r in (*records, last)] == [None] * 6 + ["abort"]


def test_a_record_is_the_same_whether_it_has_been_read_or_not() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(seed=1, ignore_eos=True), [7, 8], request_id="a")
    model_step(scheduler)
    read = scheduler.record("a")
    fields = {field.name: getattr(read, field.name) for field in dataclasses.fields(Record)}
    assert Record(**fields) == read == scheduler.record("a")
    assert repr(scheduler.record("a")) == repr(Record(**fields))
    assert [type(v) for v in (read.prompt_token_ids, read.token_ids, read.text)] == [list, list, str]
    assert type(read.token_ids[0]) is type(read.prompt_token_ids[0]) is int
    assert read.token_ids is read.token_ids
    for other in (pickle.loads(pickle.dumps(scheduler.record("a"))), copy.deepcopy(scheduler.record("a"))):
        assert other == read
    assert dataclasses.asdict(scheduler.record("a")) == fields
    assert dataclasses.replace(scheduler.record("a"), seed=5).token_ids == read.token_ids
    with pytest.raises(AttributeError, match="'Record' object has no attribute 'token_id'"):
        read.token_id  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(dataclasses.FrozenInstanceError):
        scheduler.record("a").token_ids = []  # type: ignore[misc]


def test_a_record_without_a_tokenizer_has_no_text() -> None:
    scheduler = Scheduler(40)
    assert scheduler.remove(scheduler.add(SamplingParams(), [1])).text is None


def test_a_record_for_observers_is_made_only_if_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def count(**fields: Any) -> Record:
        made.append(fields["request_id"])
        return Record(**fields)

    monkeypatch.setattr("engine_sampler.requests.request.Record", count)

    def finish_one() -> None:
        scheduler = make_scheduler()
        scheduler.add(SamplingParams(max_tokens=1, ignore_eos=True), request_id="a")
        scheduler.step(np.zeros((1, 40), np.float32))
        assert scheduler.request_ids == []

    finish_one()
    assert made == []

    class Observer:
        name = "watcher"
        seen: list[Record] = []

        def request_finished(self, record: Record) -> None:
            self.seen.append(record)

    class Plugin:
        @hookimpl
        def register_observers(self, register: Any) -> None:
            register(Observer())

    with registered_plugin(Plugin()):
        finish_one()
    assert made == ["a"]
    assert [r.finish_reason for r in Observer.seen] == ["length"]


# --- token ids -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.uint64, list, tuple])
def test_prompts_of_every_kind_are_copied(kind: Any) -> None:
    prompt = kind([1, 2, 3]) if kind in (list, tuple) else np.array([1, 2, 3], kind)
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), prompt, request_id="a", output_token_ids=prompt)
    if kind is not tuple:
        prompt[0] = 9
    record = scheduler.record("a")
    assert record.prompt_token_ids == record.token_ids == [1, 2, 3]
    history = scheduler._requests.known["a"].state.history
    with pytest.raises(ValueError, match="read-only"):
        history.prompt_token_ids[0] = 5


@pytest.mark.parametrize(
    "given", [np.arange(10)[::-3], range(3), np.array([], np.float32), memoryview(b"ab")]
)
def test_other_sequences_are_prompts_too(given: Any) -> None:
    scheduler = Scheduler(100)
    assert scheduler.remove(scheduler.add(SamplingParams(), given)).prompt_token_ids == list(given)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (np.array([0, 40, -1]), "prompt_token_ids names token id 40, allowed are 0 to 39"),
        (np.array([0, -1, 40]), "prompt_token_ids names token id -1, allowed are 0 to 39"),
        (np.array([2**63], np.uint64), "prompt_token_ids names token id 9223372036854775808"),
        ([2**70], "prompt_token_ids=.* is not allowed: a list of token ids"),
        (np.array([[1, 2]]), "prompt_token_ids=.* is not allowed: a list of token ids"),
        (np.array([1.0]), "prompt_token_ids=.* is not allowed: a list of token ids"),
        ([True], "prompt_token_ids=.* is not allowed: a list of token ids"),
        ([[1, 2], [3]], "prompt_token_ids=.* is not allowed: a list of token ids"),
        (None, "prompt_token_ids=None is not allowed: a list of token ids"),
    ],
)
def test_other_prompts_are_refused_by_name_and_value(given: Any, match: str) -> None:
    scheduler = make_scheduler()
    with pytest.raises(ParameterError, match=match):
        scheduler.add(SamplingParams(), given)
    assert scheduler.request_ids == []


# --- the pool ------------------------------------------------------------------------------------


def test_the_cells_of_a_closed_slot_are_used_without_new_arrays() -> None:
    pool = TokenPool(3)
    for slot, length in enumerate((100, 3000, 200)):
        pool.open(slot, np.full(length, slot))
    pool.close(1)
    pool.open(1, np.full(3000, 1))
    arrays = pool.tokens
    for turn in range(50):
        pool.close(1)
        pool.open(1, np.full(3000 - turn, 7))
    assert pool.tokens is arrays
    assert [pool.tokens_of(slot).tolist() for slot in (0, 2)] == [[0] * 100, [2] * 200]
    assert len(pool.notes_of(1)) == 0


def test_siblings_with_a_long_prompt_have_little_room_for_output_at_first() -> None:
    pool = TokenPool(32)
    prompt = np.arange(100_000)
    pool.reserve(len(prompt), 32)
    arrays = pool.arrays
    for slot in range(32):
        pool.open(slot, prompt)
    assert pool.arrays is arrays
    assert len(pool.tokens) < 1.02 * 32 * len(prompt)
    for slot in (0, 31):
        pool.append(slot, np.arange(5000), np.full(5000, 0.5))
    assert pool.tokens_of(31).tolist() == [*range(100_000), *range(5000)]
    assert len(pool.notes_of(0)) == 5000


def test_a_region_that_a_move_has_left_stays_until_a_slot_is_opened_or_closed() -> None:
    pool = TokenPool(4)
    for slot in range(3):
        pool.open(slot, np.full(10, slot))
    pool.open(3, np.zeros(5000, np.int64))
    pool.close(3)  # leaves room, so that no move replaces the arrays
    seen, arrays = pool.tokens_of(0), pool.tokens
    for step in range(500):
        pool.extend(np.arange(3), np.full(3, step), np.zeros(3))
        assert seen.tolist() == [0] * 10
    assert pool.tokens is arrays
    assert not np.shares_memory(seen, pool.tokens_of(0))
    assert [pool.tokens_of(slot).tolist() for slot in range(3)] == [
        [s] * 10 + [*range(500)] for s in range(3)
    ]
