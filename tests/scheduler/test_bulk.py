"""Steps process tokens in bulk: only requests that must be checked are checked, with the same results."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.contract import (
    Backend,
    Batch,
    Param,
    ParameterError,
    Sampler,
    StoppingCriteria,
    StopVerdict,
    Watch,
)
from engine_sampler.requests.request import Request
from engine_sampler.stopping.max_tokens import MaxTokensCriteria
from engine_sampler.stopping.stop_token_ids import StopTokenIdsCriteria

from ..engines import CONFIGURATIONS, EOS, VOCAB, model_row, outcome, registered

NO_LOGITS = np.zeros((1, VOCAB), np.float32)


class Scripted(Backend):
    """Gives each row its token of `script`, and records the batches' caches."""

    name = "scripted"

    def __init__(self) -> None:
        self.script: list[int] = []
        self.caches: list[dict[Any, Any]] = []

    def compile(self, chain: Any) -> Any:
        return chain

    def run(self, batch: Batch) -> None:
        self.caches.append(batch.cache)
        for group in batch.groups:
            batch.token_ids[group.index] = np.array(self.script)[group.index]
            batch.notes[group.index] = 4.5


def scripted(n: int, **settings: Any) -> tuple[Scheduler, Scripted]:
    """A scheduler without text whose backend is scripted, and n requests."""
    backend = Scripted()
    scheduler = Scheduler(VOCAB, eos_token_ids=[EOS], backend=backend)
    for i in range(n):
        scheduler.add(SamplingParams(**settings, seed=i), [1, 2, i])
    return scheduler, backend


def step(scheduler: Scheduler, backend: Scripted, *tokens: int, **keywords: Any) -> Any:
    backend.script = list(tokens)
    return scheduler.step(np.zeros((len(tokens), VOCAB), np.float32), **keywords)


# --- which requests are checked -------------------------------------------------------------------


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The ids of the requests whose `follow` steps have called, in order."""
    ids: list[Any] = []
    follow = Request.follow
    monkeypatch.setattr(Request, "follow", lambda self, *a: ids.append(self.id) or follow(self, *a))
    return ids


def test_requests_that_need_no_check_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, backend = scripted(6, max_tokens=10**6, frequency_penalty=0.5, mirostat=2)
    step(scheduler, backend, *range(6))

    def poison(self: Request, name: str) -> Any:
        raise AssertionError(f"{name} of request {object.__getattribute__(self, 'id')} was read")

    with monkeypatch.context() as patch:
        patch.setattr(Request, "__getattribute__", poison)
        for n in range(200):
            result = step(scheduler, backend, *((np.arange(6) + n) % 30).tolist())
            assert result.token_ids.tolist() == backend.script
    assert result.finish_reasons == result.errors == result.text == [None] * 6
    assert result.seeds == list(range(6))
    assert scheduler.record(2).token_ids == [2, *((2 + n) % 30 for n in range(200))]
    mu = scheduler._requests.slots.entries[2].states["mirostat_v2"].values
    assert len(mu) == 202
    assert mu[1] > mu[0]


def test_a_watched_token_checks_only_requests_that_drew_it(checked: list[Any]) -> None:
    scheduler, backend = scripted(3)
    scheduler.add(SamplingParams(stop_token_ids=[7, 8]), request_id="stops")
    step(scheduler, backend, 1, 2, 3, 4)
    assert checked == []
    result = step(scheduler, backend, 1, 7, 3, 8)
    assert checked == [1, "stops"]
    assert result.finish_reasons == [None, None, None, "stop"]
    assert result.stop_reasons == [None, None, None, 8]
    step(scheduler, backend, 7, 8, EOS)
    assert checked == [1, "stops", 2]
    assert scheduler.request_ids == [0, 1]


def test_limits_trigger_a_check_when_they_are_reached(checked: list[Any]) -> None:
    scheduler, backend = scripted(1)
    scheduler.add(SamplingParams(max_tokens=3), [1] * 5, request_id="three")
    scheduler.add(SamplingParams(max_tokens=3), [1], output_token_ids=[1, 1], request_id="one")
    assert step(scheduler, backend, 1, 2, 3).finish_reasons == [None, None, "length"]
    assert step(scheduler, backend, 1, 2).finish_reasons == [None, None]
    assert checked == ["one"]
    assert step(scheduler, backend, 1, 2).stop_reasons == [None, "max_tokens"]
    assert checked == ["one", "three"]


def test_the_maximum_model_length_triggers_a_check_too(checked: list[Any]) -> None:
    backend = Scripted()
    scheduler = Scheduler(VOCAB, backend=backend, max_model_len=6)
    scheduler.add(SamplingParams(), [1, 2, 3])
    for expected in (None, None, "max_model_len"):
        assert step(scheduler, backend, 5).stop_reasons == [expected]
    assert checked == [0]


def test_a_rollback_undoes_tokens_that_criteria_have_and_have_not_seen() -> None:
    scheduler, backend = scripted(1, max_tokens=4, stop_token_ids=[9], min_tokens=0)
    for token in (1, 2, 3):
        step(scheduler, backend, token)
    scheduler.rollback(0, 2)
    for token, reason in ((4, None), (5, None), (6, "max_tokens")):
        assert step(scheduler, backend, token).stop_reasons == [reason]
    assert scheduler.record(0).token_ids == [1, 4, 5, 6]


@pytest.mark.parametrize(("token", "words"), [(-1, "no token"), (-9, "no token"), (VOCAB, "token 40")])
def test_an_invalid_token_ends_only_its_request(token: int, words: str) -> None:
    scheduler, backend = scripted(3)
    result = step(scheduler, backend, 4, token, 6)
    assert result.errors == [None, f"backend scripted gave {words}", None]
    assert result.token_ids.tolist() == [4, -1, 6]
    assert [scheduler.record(i).token_ids for i in range(3)] == [[4], [], [6]]
    assert scheduler._requests.slots.positions[[0, 2]].tolist() == [4, 4]


# --- what is cached between steps -----------------------------------------------------------------


def test_a_backends_cache_lives_while_the_rows_stay_the_same() -> None:
    scheduler, backend = scripted(3)
    for _ in range(3):
        step(scheduler, backend, 1, 2, 3)
    step(scheduler, backend, 1, 2, 3, request_ids=[0, 1, 2])
    assert all(cache is backend.caches[0] for cache in backend.caches)
    step(scheduler, backend, 2, 1, request_ids=[2, 0])
    step(scheduler, backend, 1, 5, 2, 3, draft_token_ids=[[1], [], []])
    scheduler.remove(1)
    step(scheduler, backend, 1, 2)
    assert len({id(cache) for cache in backend.caches}) == 5  # a step with drafts takes two rounds


def test_lists_in_a_result_belong_to_the_caller() -> None:
    scheduler, backend = scripted(2)
    first = step(scheduler, backend, 1, 2)
    for values in (first.request_ids, first.seeds, first.parent_ids, first.first_rows):
        values[0] = 77
    second = step(scheduler, backend, 1, 2)
    assert (second.request_ids, second.seeds, second.parent_ids) == ([0, 1], [0, 1], [0, 1])
    assert second.first_rows.tolist() == [0, 1]
    assert first.token_ids is not second.token_ids


# --- the same results as one by one ---------------------------------------------------------------


class UnwatchedMaxTokens(MaxTokensCriteria):
    def watch(self, *values: Any) -> None:
        return None


class UnwatchedStop(StopTokenIdsCriteria):
    def watch(self, *values: Any) -> None:
        return None


def test_a_criterion_with_a_watch_ends_requests_as_one_that_is_always_called() -> None:
    chance = random.Random(5)
    watching, unwatched = (Scheduler(VOCAB, backend=Scripted()) for _ in range(2))
    for i in range(20):
        settings = SamplingParams(max_tokens=chance.randint(1, 12), stop_token_ids=[chance.randrange(VOCAB)])
        waits = {"min_tokens": chance.choice((0, 5)), "seed": i}
        watching.add(SamplingParams(**waits), stopping_criteria=[_With(MaxTokensCriteria(), settings),
                     _With(StopTokenIdsCriteria(), settings)])  # fmt: skip
        unwatched.add(SamplingParams(**waits), stopping_criteria=[_With(UnwatchedMaxTokens(), settings),
                      _With(UnwatchedStop(), settings)])  # fmt: skip
    while live := watching.request_ids:
        assert live == unwatched.request_ids
        tokens = [chance.randrange(VOCAB) for _ in live]
        for scheduler in (watching, unwatched):
            step(scheduler, scheduler.backend, *tokens)  # type: ignore[arg-type]
        if chance.random() < 0.2 and (still := watching.request_ids):
            name = chance.choice(still)
            n = chance.randint(0, len(watching.record(name).token_ids))
            watching.rollback(name, n)
            unwatched.rollback(name, n)
    assert [outcome(watching.record(i)) for i in range(20)] == [
        outcome(unwatched.record(i)) for i in range(20)
    ]


class _With(StoppingCriteria):
    """A built-in criterion with parameters of its own; it waits for min_tokens."""

    def __init__(self, criterion: StoppingCriteria, settings: SamplingParams) -> None:
        self.criterion, self.settings, self.name = criterion, settings, criterion.name
        self.is_limit = criterion.is_limit

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: Any, vocabulary: Any) -> Any:
        return self.criterion.new_state(self.settings, prompt_token_ids, vocabulary)

    def watch(self, params: Mapping[str, Any], prompt_token_ids: Any, vocabulary: Any) -> Watch | None:
        return self.criterion.watch(self.settings, prompt_token_ids, vocabulary)

    def check(self, state: Any, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        return self.criterion.check(state, token_ids, text)

    def rollback(self, state: Any, n: int) -> None:
        self.criterion.rollback(state, n)


@pytest.mark.parametrize(("watch", "words"), [("soon", "not a Watch"), (Watch([VOCAB]), "names token id 40")])
def test_a_criterion_with_an_invalid_watch_is_refused(watch: Any, words: str) -> None:
    class Invalid(StoppingCriteria):
        name = "odd"

        def watch(self, *values: Any) -> Any:
            return watch

    scheduler = Scheduler(VOCAB)
    with pytest.raises(ParameterError, match=words):
        scheduler.add(SamplingParams(), stopping_criteria=[Invalid()])
    assert scheduler.request_ids == []


class Nothing(StoppingCriteria):
    """Is called after every token, and never ends anything."""

    name = "nothing"

    def check(self, state: Any, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        return None


def test_tokens_processed_in_bulk_equal_tokens_accepted_one_by_one() -> None:
    """Every configuration: all requests together, checked never, always, or fed by `accept`."""
    settings = [SamplingParams(**c, seed=3, max_tokens=15) for c in CONFIGURATIONS]
    unchecked, checked, fed = (Scheduler(VOCAB, eos_token_ids=[EOS]) for _ in range(3))
    for params in settings:
        unchecked.add(params, [1, 2])
        checked.add(params, [1, 2], stopping_criteria=[Nothing()])
        fed.add(params, [1, 2])
    while live := unchecked.request_ids:
        rows = np.stack([model_row([1, 2, *unchecked.record(r).token_ids]) for r in live])
        first, second = unchecked.step(rows, live), checked.step(rows, live)
        assert first.token_ids.tolist() == second.token_ids.tolist()
        assert first.finish_reasons == second.finish_reasons
        for request_id, token in zip(live, first.token_ids.tolist(), strict=True):
            fed.accept(request_id, [token])
    for i, params in enumerate(settings):
        assert outcome(unchecked.record(i)) == outcome(checked.record(i)) == outcome(fed.record(i)), params


# --- faults --------------------------------------------------------------------------------------


class Late(Sampler):
    """A lazy sampler whose state cannot follow token 13."""

    name = "late"
    after = "min_p"
    lazy = True
    params = (Param("late", bool, False, doc="on"),)

    def new_state(self, params: Any, prompt_token_ids: Any) -> list[int]:
        return []

    def accept(self, state: list[int], token_ids: Sequence[int]) -> None:
        state.extend(token_ids)
        if 13 in state:
            raise RuntimeError("lost the thread")

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        for row, state in zip(logits, rows.states, strict=True):
            row[state] -= 1


def test_a_state_that_fails_while_it_catches_up_ends_its_request_alone() -> None:
    with registered(Late()):
        scheduler = Scheduler(VOCAB)
        for name in ("a", "bad", "b"):
            scheduler.add(SamplingParams(late=True, temperature=0), request_id=name)
        scheduler.accept("bad", [13])
        scheduler.accept("a", [5])
        row = np.linspace(0, 0.5, VOCAB).astype(np.float32)
        result = scheduler.step(np.stack([row] * 3))
        assert result.errors == [None, "late failed: RuntimeError: lost the thread", None]
        assert result.token_ids.tolist() == [VOCAB - 1, -1, VOCAB - 1]
        assert scheduler.record("bad").token_ids == [13]
        assert scheduler.request_ids == ["a", "b"]
