"""A suspended request keeps everything but its slot, and continues as if it had stayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import RequestError, SamplingParams, Scheduler

from ..engines import (
    CONFIGURATIONS,
    VOCAB,
    ToyMatcher,
    alone,
    make_scheduler,
    model_step,
    outcome,
    registered_plugin,
    run_to_end,
)
from ..stateful.checks import digest, expect_sound
from .test_threads import Watcher, Watching

PLAIN = SamplingParams(seed=4, max_tokens=8, logit_bias={39: -100.0})


def interrupted(scheduler: Scheduler, request_id: Any) -> None:
    """Suspend a request for two steps of the others, which get its slot."""
    scheduler.suspend(request_id)
    others = [scheduler.add(PLAIN.replace(max_tokens=2)) for _ in range(3)]
    for _ in range(2):
        model_step(scheduler)
    for other in others:
        scheduler.remove(other)
    scheduler.resume(request_id)


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("settings", CONFIGURATIONS)
def test_a_resumed_request_continues_exactly(settings: Any, backend: str) -> None:
    params = SamplingParams(**settings, seed=9, max_tokens=9)
    scheduler = make_scheduler(backend=backend)
    scheduler.add(params, [1, 2], request_id="a")
    streamed = ""
    while scheduler.request_ids:
        streamed += model_step(scheduler).text[0] or ""
        if "a" in scheduler.request_ids:
            interrupted(scheduler, "a")
            expect_sound(scheduler)
    assert outcome(scheduler.record("a")) == outcome(alone(params, [1, 2]))
    assert streamed == scheduler.record("a").text


def test_a_grammar_a_position_and_a_seed_stay_with_a_suspended_request() -> None:
    table = {"start": dict.fromkeys(range(9), "one"), "one": {3: "two", 4: "two"}, "two": {5: "start"}}
    expected = alone(PLAIN, grammar=ToyMatcher(table))
    scheduler = make_scheduler()
    scheduler.add(PLAIN, request_id="a", grammar=ToyMatcher(table))
    scheduler.add(PLAIN, request_id="b", position=1000)
    lonely = make_scheduler()
    lonely.add(PLAIN, request_id="b", position=1000)
    while scheduler.request_ids:
        model_step(scheduler)
        for name in "ab":
            if name in scheduler.request_ids:
                interrupted(scheduler, name)
    run_to_end(lonely)
    assert outcome(scheduler.record("a")) == outcome(expected)
    assert outcome(scheduler.record("b")) == outcome(lonely.record("b"))


def test_a_suspended_sibling_keeps_its_rank() -> None:
    params = PLAIN.replace(best_of=4, n=1, max_tokens=6)
    ids = list("abcd")
    records = []
    for suspended in ((), ("b", "d")):
        scheduler = make_scheduler()
        scheduler.add_group(params, [1], request_ids=ids)
        for _ in range(3):
            model_step(scheduler)
        for name in suspended:
            interrupted(scheduler, name)
        run_to_end(scheduler)
        records.append([(scheduler.record(i), scheduler.best(ids)) for i in ids])
    assert records[0] == records[1]
    assert all(record.cumulative_logprob is not None for record, _ in records[0])


def test_siblings_of_which_one_has_no_logprobs_are_not_ranked() -> None:
    scheduler = make_scheduler()
    ids = scheduler.add_group(PLAIN.replace(best_of=3, n=1), [1])
    model_step(scheduler)
    record = scheduler.remove(ids[1])
    scheduler.add(PLAIN.replace(seed=record.seed), [1], output_token_ids=record.token_ids, request_id=ids[1])
    run_to_end(scheduler)
    with pytest.raises(RequestError, match=f"request {ids[1]} has no logprobs to rank it by"):
        scheduler.best(ids)
    assert scheduler.best([ids[0], ids[2]])


def test_observers_see_no_end_of_a_suspended_request() -> None:
    watcher = Watcher()
    with registered_plugin(Watching(watcher)):
        scheduler = make_scheduler()
        scheduler.add(PLAIN, request_id="a")
        scheduler.suspend("a")
        scheduler.resume("a")
        run_to_end(scheduler)
        scheduler.add(PLAIN, request_id="b")
        scheduler.suspend("b")
        assert scheduler.remove("b").finish_reason == "abort"
    ends = [event[1:] for event in watcher.events if event[0] == "finished"]
    assert ends == [("a", "length"), ("b", "abort")]
    assert sum(event[0] == "added" for event in watcher.events) == 2


def test_a_suspended_request_can_only_be_resumed_removed_or_looked_up() -> None:
    scheduler = make_scheduler()
    for name in "ab":
        scheduler.add(PLAIN, [1], request_id=name)
    model_step(scheduler)
    record = scheduler.suspend("a")
    assert record == scheduler.record("a")
    assert (record.finish_reason, len(record.token_ids)) == (None, 1)
    assert scheduler.request_ids == ["b"]
    before, row = digest(scheduler), np.zeros((1, VOCAB), np.float32)
    for call in (
        lambda: scheduler.step(row, ["a"]),
        lambda: scheduler.process(row, ["a"]),
        lambda: scheduler.accept("a", [1]),
        lambda: scheduler.rollback("a", 1),
        lambda: scheduler.fork("a"),
        lambda: scheduler.suspend("a"),
        lambda: scheduler.forced_tokens("a"),
    ):
        with pytest.raises(RequestError, match="request 'a' is suspended"):
            call()
    for name in ("b", "c"):
        with pytest.raises(RequestError, match=f"request '{name}' is (not suspended|unknown)"):
            scheduler.resume(name)
    assert digest(scheduler) == before
    expect_sound(scheduler)
    assert scheduler.remove("a").finish_reason == "abort"
    assert scheduler.step(np.zeros((2, VOCAB), np.float32), ["a", "b"]).skipped == [0]
    expect_sound(scheduler)


def test_a_text_of_a_beam_search_cannot_be_suspended() -> None:
    scheduler = make_scheduler()
    ids = scheduler.add_group(SamplingParams(use_beam_search=True, n=2, max_tokens=3))
    with pytest.raises(RequestError, match="belongs to a beam search"):
        scheduler.suspend(ids[0])
