"""Rows of requests that left during the forward pass are skipped; the others get their tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import RequestError, SamplingParams, Scheduler
from engine_sampler.scheduler.membership.directory import MOST_REMOVED

from ..engines import (
    EOS,
    VOCAB,
    ToyMatcher,
    alone,
    make_scheduler,
    model_row,
    outcome,
    rows_for,
    run_to_end,
)
from ..stateful.checks import digest, expect_sound

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "text": {"stop": ["zz"]},
    "logprobs": {"logprobs": 2, "logprobs_mode": ("raw", "penalized", "processed"), "top_k": 6},
    "penalties": {"repetition_penalty": 1.3, "mirostat": 2},
}


def params_of(name: str) -> SamplingParams:
    return SamplingParams(seed=5, max_tokens=6, logit_bias={EOS: -100.0}, **SETTINGS[name])


def busy(backend: str = "auto") -> Scheduler:
    """A scheduler with a request of every kind, each followed by one that will leave."""
    scheduler = make_scheduler(backend=backend)
    for name in SETTINGS:
        scheduler.add(params_of(name), [1], request_id=name)
        scheduler.add(params_of(name), [1], request_id=f"{name} leaves")
    loop = ToyMatcher({"start": dict.fromkeys(range(20), "start")})
    scheduler.add(params_of("plain"), [1], request_id="grammar", grammar=loop)
    return scheduler


def leave(scheduler: Scheduler) -> None:
    """What another thread does during the forward pass."""
    scheduler.remove("plain leaves")
    scheduler.remove("logprobs leaves")
    scheduler.accept("text leaves", [EOS])
    scheduler.remove("penalties leaves")


def expect_right(scheduler: Scheduler) -> None:
    expect_sound(scheduler)
    run_to_end(scheduler)
    for name in SETTINGS:
        assert outcome(scheduler.record(name)) == outcome(alone(params_of(name), [1]))
    loop = ToyMatcher({"start": dict.fromkeys(range(20), "start")})
    assert outcome(scheduler.record("grammar")) == outcome(alone(params_of("plain"), [1], loop))


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_rows_of_requests_that_have_left_are_skipped_and_reported(backend: str) -> None:
    scheduler = busy(backend)
    ids = scheduler.request_ids
    rows = rows_for(scheduler, ids)
    leave(scheduler)
    rows[[i for i, name in enumerate(ids) if "leaves" in str(name)]] = np.nan  # they are not read
    result = scheduler.step(rows, ids)
    assert result.request_ids == result.parent_ids == ids
    assert [ids[i] for i in result.skipped] == [name for name in ids if "leaves" in str(name)]
    for i, name in enumerate(ids):
        assert (result.token_ids[i] < 0) == ("leaves" in str(name))
        assert result.first_rows[i] == i
        assert result.finish_reasons[i] == {"text leaves": "stop"}.get(
            str(name), "abort" if "leaves" in str(name) else None
        )
        assert result.errors[i] is None
        if name in SETTINGS:
            assert result.tokens(i) == alone(params_of(str(name)), [1]).token_ids[:1]
            assert result.seeds[i] == 5
    logprobs = result.logprobs.by_mode["raw"]  # type: ignore[union-attr]
    assert logprobs.token_ids[ids.index("logprobs"), 0] == result.token_ids[ids.index("logprobs")]
    assert scheduler.step(rows_for_live(scheduler, ids), ids).skipped == result.skipped
    expect_right(scheduler)


def rows_for_live(scheduler: Scheduler, ids: list[Any]) -> np.ndarray:
    """The model's rows, anything for those that have left."""
    live = scheduler.request_ids
    return np.stack([rows_for(scheduler, [i])[0] if i in live else model_row([1]) for i in ids])


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_rows_with_drafts_are_skipped_together(backend: str) -> None:
    scheduler = busy(backend)
    ids = scheduler.request_ids
    drafts = [[3, 4] if i % 3 else [] for i in range(len(ids))]
    rows = rows_for(scheduler, ids, drafts)
    leave(scheduler)
    result = scheduler.step(rows, ids, drafts)
    assert result.first_rows.tolist() == np.cumsum([0, *(1 + len(d) for d in drafts)])[:-1].tolist()
    for i, name in enumerate(ids):
        assert (not result.tokens(i)) == ("leaves" in str(name))
    expect_right(scheduler)


def test_a_beam_search_that_another_thread_ends_is_skipped_and_another_goes_on() -> None:
    searching = SamplingParams(use_beam_search=True, n=2, max_tokens=4)
    scheduler = make_scheduler()
    gone = scheduler.add_group(searching, [1], request_ids=["a", "b"])
    scheduler.add(params_of("plain"), [1], request_id="plain")
    kept = scheduler.add_group(searching, [1], request_ids=["c", "d"])
    ids = scheduler.request_ids
    rows = rows_for(scheduler, ids)
    scheduler.remove("b")
    result = scheduler.step(rows, ids)
    assert [ids[i] for i in result.skipped] == gone
    assert result.finish_reasons[:2] == ["abort", "abort"]
    assert (result.token_ids >= 0).tolist() == [False, False, True, True, True]
    run_to_end(scheduler)
    lonely = make_scheduler()
    lonely.add_group(searching, [1], request_ids=kept)
    run_to_end(lonely)
    assert [outcome(scheduler.record(i)) for i in kept] == [outcome(lonely.record(i)) for i in kept]
    assert outcome(scheduler.record("plain")) == outcome(alone(params_of("plain"), [1]))


def test_a_step_whose_requests_have_all_left_returns() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), request_id="a")
    scheduler.remove("a")
    result = scheduler.step(np.zeros((1, VOCAB), np.float32), ["a"])
    assert result.skipped == [0]
    assert result.token_ids.tolist() == [-1]
    assert np.isnan(scheduler.process(np.zeros((1, VOCAB), np.float32), ["a"])).all()
    scheduler.prepare(["a"])


def test_a_strict_step_refuses_requests_that_have_left_and_changes_nothing() -> None:
    scheduler = busy()
    ids = scheduler.request_ids
    leave(scheduler)
    rows, before = rows_for_live(scheduler, ids), digest(scheduler)
    for _ in range(2):
        with pytest.raises(RequestError, match="request 'plain leaves' is unknown"):
            scheduler.step(rows, ids, strict=True)
    assert digest(scheduler) == before
    scheduler.step(rows, ids)
    with pytest.raises(RequestError, match="request 'plain leaves' is unknown"):
        scheduler.step(rows, ids, strict=True)
    expect_right(scheduler)


def test_an_id_that_no_request_ever_had_is_refused() -> None:
    scheduler = busy()
    with pytest.raises(RequestError, match="request 'plane' is unknown"):
        scheduler.step(np.zeros((1, VOCAB), np.float32), ["plane"])


def test_the_ids_of_removed_requests_are_remembered_up_to_a_limit() -> None:
    scheduler = make_scheduler()
    for i in range(MOST_REMOVED + 3):
        scheduler._requests._remember_removed(i)
    assert list(scheduler._requests._removed) == list(range(3, MOST_REMOVED + 3))


def test_an_id_that_is_used_again_is_live() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), request_id="a")
    scheduler.remove("a")
    rows = np.zeros((1, VOCAB), np.float32)
    assert scheduler.step(rows, ["a"]).skipped == [0]
    scheduler.add(params_of("plain"), [1], request_id="a")
    assert scheduler.step(model_row([1])[None], ["a"]).skipped == ()
    run_to_end(scheduler)
    assert outcome(scheduler.record("a")) == outcome(alone(params_of("plain"), [1]))
