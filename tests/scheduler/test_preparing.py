"""Samplers that prepare, and bounded matchers that are not the library's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, UnfinishedError
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Param, Sampler, Work, spending
from engine_sampler.requests import budget as budget_module

from ..engines import EOS, TOKENIZER, VOCAB, ToyMatcher, make_scheduler, model_step, registered

BACKENDS = ["numpy", "auto"]
PIECE = 1000
"""The steps of one piece of work."""


class Slow(Sampler):
    """Lowers the last token by the pieces of work that `prepare` has done after it."""

    name = "slow"
    role = "penalty"
    params = (Param("slow", int, neutral=0, low=0, high=100),)

    def __init__(self) -> None:
        self.pieces = 0
        self.unprepared = 0

    def new_state(self, params: Any, prompt_token_ids: Any) -> Any:
        return {"tokens": [], "effort": params["slow"], "done": 0}

    def accept(self, state: Any, token_ids: Any) -> None:
        state["tokens"] += token_ids
        state["done"] = 0

    def rollback(self, state: Any, n: int) -> None:
        del state["tokens"][len(state["tokens"]) - n :]
        state["done"] = 0

    def prepare(self, rows: Any, work: Work | None) -> None:
        (state,) = rows.states
        self.work_on(state, spending(work))

    def work_on(self, state: Any, spend: Any) -> None:
        while state["done"] < state["effort"]:
            spend(PIECE)
            state["done"] += 1
            self.pieces += 1

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        for i, state in enumerate(rows.states):
            self.unprepared += state["done"] < state["effort"]
            self.work_on(state, spending(None))
            if state["tokens"]:
                columns, _ = rows.columns(i, np.array(state["tokens"][-1:]))
                logits[i, columns] -= np.float32(state["done"])


def narrow(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    """Let a step do that many pieces of work, besides accepts, and a turn half of them."""
    monkeypatch.setattr(budget_module, "STEP_WORK", pieces * PIECE * 5 // 4)
    monkeypatch.setattr(budget_module, "REQUEST_WORK", pieces * PIECE // 2)


def outcomes(scheduler: Scheduler, most: int = 500) -> tuple[list[Any], dict[Any, int]]:
    """How all requests end, and how many rows of each have waited."""
    ids = scheduler.request_ids
    waited = dict.fromkeys(ids, 0)
    for _ in range(most):
        if not scheduler.request_ids:
            break
        result = model_step(scheduler)
        for request_id, token, reason in zip(
            result.request_ids, result.token_ids[result.first_rows], result.finish_reasons, strict=True
        ):
            waited[request_id] += token < 0 and reason is None
    assert not scheduler.request_ids
    records = [scheduler.record(request_id) for request_id in ids]
    return [(r.token_ids, r.text, r.finish_reason, r.error) for r in records], waited


def some_requests(backend: Any, **keywords: Any) -> Scheduler:
    """Requests whose chains prepare, alone and beside a grammar, and one whose chain does not."""
    scheduler = make_scheduler(backend=backend, **keywords)
    scheduler.add(SamplingParams(seed=1, max_tokens=9, slow=9, logprobs=1), request_id="slow")
    scheduler.add(SamplingParams(seed=2, max_tokens=9, slow=5, top_k=7), request_id="slower")
    scheduler.add(
        SamplingParams(seed=3, max_tokens=9, slow=7),
        request_id="masked",
        grammar=BoundedToy({"start": dict.fromkeys(range(30), "start")}),
    )
    scheduler.add(SamplingParams(seed=4, max_tokens=9, logprobs=1), request_id="plain")
    return scheduler


class BoundedToy(ToyMatcher):
    """A table whose every call takes a piece of work, a mask three."""

    bounded = True
    done = 0

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0, work: Work | None = None) -> None:
        spend = spending(work)
        while self.done < 3:
            spend(PIECE)
            self.done += 1
        super().fill_bitmask(bitmask, row)

    def accept(self, token_id: int, work: Work | None = None) -> bool:
        spending(work)(PIECE)
        self.done = 0
        return super().accept(token_id)

    def rollback(self, n: int) -> None:
        self.done = 0
        super().rollback(n)

    def fork(self) -> BoundedToy:
        child = BoundedToy(self.table)
        child.states = self.states.copy()
        return child

    def forced_tokens(self, *, work: Work | None = None) -> list[int]:
        spending(work)(PIECE)
        return []


@pytest.mark.parametrize("backend", BACKENDS)
def test_postponed_requests_get_the_tokens_that_they_would_have_got(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with registered(Slow()):
        expected, none = outcomes(some_requests(backend))
        narrow(monkeypatch, 8)
        found, waited = outcomes(some_requests(backend))
    assert found == expected
    assert set(none.values()) == {0}
    assert waited.pop("plain") == 0
    assert all(waited.values())


def test_the_chain_of_a_postponed_request_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch, 8)
    with registered(slow := Slow()):
        outcomes(some_requests("numpy"))
    assert slow.pieces
    assert not slow.unprepared


def test_a_step_without_any_row_is_left_to_no_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch, 1)
    with registered(Slow()):
        scheduler = make_scheduler(backend=NumpyBackend())
        scheduler.add(SamplingParams(slow=50, logprobs=1))
        result = model_step(scheduler)
    assert result.token_ids.tolist() == [-1]
    assert result.errors == result.finish_reasons == [None]


def test_samplers_prepare_during_the_forward_pass() -> None:
    with registered(slow := Slow()):
        scheduler = make_scheduler()
        scheduler.add(SamplingParams(slow=20))
        scheduler.prepare()
        assert slow.pieces == 20
        model_step(scheduler)
        assert slow.pieces == 20
        model_step(scheduler)
        assert slow.pieces == 40


def test_processing_gives_no_row_until_its_samplers_have_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch, 4)
    flat = np.zeros((1, VOCAB), np.float32)
    with registered(Slow()):
        scheduler = make_scheduler()
        scheduler.add(SamplingParams(slow=5), output_token_ids=[3])
        assert np.isnan(scheduler.process(flat)).all()
        while np.isnan(found := scheduler.process(flat)).all():
            pass
    assert found[0, 3] == -5


def test_drafts_stop_where_a_sampler_is_not_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.zeros((3, VOCAB), np.float32)
    rows[[0, 1, 2], [4, 5, 6]] = 99
    with registered(Slow()):
        scheduler = make_scheduler()
        scheduler.add(SamplingParams(temperature=0, slow=6))
        narrow(monkeypatch, 9)  # enough for one token, not for two
        result = scheduler.step(rows, None, [[4, 5]])
        monkeypatch.undo()
        assert result.token_ids.tolist() == [4, -1, -1]
        assert result.finish_reasons == [None]
        assert scheduler.step(rows[1:], None, [[5]]).token_ids.tolist() == [5, 6]


def test_a_beam_search_waits_for_its_samplers(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> tuple[Any, int]:
        scheduler = make_scheduler()
        params = SamplingParams(use_beam_search=True, beam_width=2, max_tokens=4, slow=6)
        ids = scheduler.add_group(params)
        waited = 0
        while scheduler.request_ids:
            have = len(scheduler.record(ids[0]).token_ids)
            rows = np.random.default_rng(have).normal(0, 3, (2, VOCAB)).astype(np.float32)
            waited += scheduler.step(rows).token_ids.tolist() == [-1, -1] and bool(scheduler.request_ids)
        return [scheduler.record(i).token_ids for i in ids], waited

    with registered(Slow()):
        expected, none = found()
        narrow(monkeypatch, 10)
        assert found()[0] == expected
        assert found()[1] > none


# --- faults ---------------------------------------------------------------------------------------


class Failing(Slow):
    """Cannot prepare after token 3."""

    def prepare(self, rows: Any, work: Any) -> None:
        if rows.states[0]["tokens"][-1:] == [3]:
            raise RuntimeError("no idea")


class NeverDone(Slow):
    """Never prepares enough."""

    def prepare(self, rows: Any, work: Any) -> None:
        raise UnfinishedError("not yet")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sampler_that_cannot_prepare_ends_its_request_alone(backend: str) -> None:
    with registered(Failing()):
        scheduler = make_scheduler(backend=backend)
        scheduler.add(SamplingParams(slow=1), output_token_ids=[3])
        scheduler.add(SamplingParams(slow=1, seed=1), output_token_ids=[4])
        result = model_step(scheduler)
    assert result.errors == ["slow failed: RuntimeError: no idea", None]
    assert result.token_ids[0] == -1
    assert result.token_ids[1] >= 0


def test_a_request_that_is_never_done_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_sampler.requests.ending.MOST_TURNS", 5)
    with registered(NeverDone()):
        scheduler = make_scheduler()
        scheduler.add(SamplingParams(slow=1))
        for _ in range(4):
            assert model_step(scheduler).finish_reasons == [None]
        assert model_step(scheduler).errors == ["a sampler has not finished in 5 turns"]


def test_a_beam_search_that_is_never_done_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_sampler.scheduler.masks.MOST_TURNS", 3)

    class NeverFilled(BoundedToy):
        def fill_bitmask(self, bitmask: np.ndarray, row: int = 0, work: Work | None = None) -> None:
            raise UnfinishedError("not yet")

    scheduler = make_scheduler()
    params = SamplingParams(use_beam_search=True, beam_width=2)
    scheduler.add_group(params, grammar=NeverFilled({"start": {3: "start"}}))
    for _ in range(2):
        assert model_step(scheduler).finish_reasons == [None, None]
    assert model_step(scheduler).errors == ["not yet", "not yet"]


def test_work_without_a_limit_cannot_be_unfinished() -> None:
    with registered(NeverDone()):
        scheduler = make_scheduler(postpone=False)
        scheduler.add(SamplingParams(slow=1))
        assert model_step(scheduler).errors == ["slow failed: UnfinishedError: not yet"]


@pytest.mark.parametrize("method", ["fill_bitmask", "accept"])
def test_a_matcher_that_is_not_bounded_cannot_be_unfinished(method: str) -> None:
    def unfinished(*arguments: Any, **keywords: Any) -> None:
        raise UnfinishedError("not yet")

    matcher = ToyMatcher({"start": dict.fromkeys(range(30), "start")})
    setattr(matcher, method, unfinished)
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(SamplingParams(logit_bias={EOS: -100.0}), grammar=matcher)
    assert model_step(scheduler).errors == ["the grammar failed: UnfinishedError: not yet"]


# --- bounded matchers -----------------------------------------------------------------------------


def test_a_bounded_matcher_of_a_plugin_is_postponed_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(backend: str) -> tuple[list[Any], dict[Any, int]]:
        scheduler = make_scheduler(backend=backend)
        for seed in range(3):
            grammar = BoundedToy({"start": dict.fromkeys(range(30), "start")})
            scheduler.add(SamplingParams(seed=seed, max_tokens=5), request_id=seed, grammar=grammar)
        scheduler.add(SamplingParams(seed=7, max_tokens=5), request_id="plain")
        return outcomes(scheduler)

    expected, none = found("numpy")
    narrow(monkeypatch, 4)
    tokens, waited = found("auto")
    assert tokens == expected
    assert set(none.values()) == {0}
    assert waited.pop("plain") == 0
    assert all(waited.values())


def test_forced_tokens_of_a_bounded_matcher_are_not_known_if_they_take_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Forcing(BoundedToy):
        def forced_tokens(self, *, work: Work | None = None) -> list[int]:
            spending(work)(PIECE)
            return [4]

    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), grammar=Forcing({"start": {4: "start"}}))
    assert scheduler.forced_tokens(0) == [4]
    monkeypatch.setattr("engine_sampler.requests.constraint.REQUEST_WORK", 0)
    assert scheduler.forced_tokens(0) == []


def test_tokens_chosen_elsewhere_join_a_bounded_matcher_as_far_as_the_work_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    narrow(monkeypatch, 8)  # two accepts from one step to the next
    scheduler = make_scheduler()
    grammar = BoundedToy({"start": dict.fromkeys(range(30), "start")})
    scheduler.add(SamplingParams(seed=1), grammar=grammar)
    scheduler.accept(0, [1, 2, 3, 4, 5])
    have = [len(scheduler.record(0).token_ids)]
    while have[-1] < 5:
        model_step(scheduler)
        have.append(len(scheduler.record(0).token_ids))
    assert have == [2, 4, 6]
