"""A request that is suspended, or exported to another scheduler, continues as if it had stayed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestError, SamplingParams, Scheduler

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

BRIEF = SamplingParams(seed=4, max_tokens=8)
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


@pytest.mark.quick_share(4)
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


# --- in another scheduler


def moved(scheduler: Scheduler, request_id: Any, **keywords: Any) -> Scheduler:
    """Another scheduler, with the other backend, that has the request in place of this one."""
    state = json.loads(json.dumps(scheduler.export(request_id)))
    scheduler.remove(request_id)
    other = make_scheduler(backend="numpy" if scheduler.backend is None else "native")
    assert other.add_exported(state, **keywords) == request_id
    return other


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("settings", CONFIGURATIONS)
def test_a_request_that_moves_after_every_token_continues_exactly(settings: Any) -> None:
    params = SamplingParams(**settings, seed=9, max_tokens=9, best_of=None)
    scheduler, streamed, logprobs = make_scheduler(), "", []
    scheduler.add(params.replace(logprobs=2), [1, 2], request_id="a")
    while "a" in scheduler.request_ids:
        result = model_step(scheduler)
        streamed += result.text[0] or ""
        logprobs += result.logprobs.row(0).logprobs.tolist()
        if "a" in scheduler.request_ids:
            scheduler = moved(scheduler, "a")
    assert outcome(scheduler.record("a")) == outcome(alone(params, [1, 2]))
    assert streamed == scheduler.record("a").text
    assert len(logprobs) >= len(scheduler.record("a").token_ids)


def test_what_a_moved_request_has_drawn_can_be_rolled_back() -> None:
    params = BRIEF.replace(mirostat=2, max_tokens=12)
    scheduler = make_scheduler()
    scheduler.add(params, [1])
    for _ in range(5):
        model_step(scheduler)
    scheduler = moved(scheduler, 0)
    scheduler.rollback(0, 4)
    run_to_end(scheduler)
    assert outcome(scheduler.record(0)) == outcome(alone(params, [1]))


def test_seeds_of_siblings_and_the_logprobs_that_rank_them_move() -> None:
    params = SamplingParams(n=2, best_of=3, max_tokens=6, seed=3)
    stays, leaves = make_scheduler(), make_scheduler()
    for scheduler in (stays, leaves):
        scheduler.add_group(params, [5])
        model_step(scheduler)
    other = make_scheduler()
    for i in range(3):
        other.add_exported(json.loads(json.dumps(leaves.export(i))))
    for scheduler in (stays, other):
        run_to_end(scheduler)
    assert stays.best(range(3)) == other.best(range(3))
    assert [stays.record(i) for i in range(3)] == [other.record(i) for i in range(3)]


def test_text_of_accepted_tokens_comes_after_the_move() -> None:
    scheduler = make_scheduler()
    scheduler.add(BRIEF)
    scheduler.accept(0, [0, 1])
    assert (model_step(moved(scheduler, 0)).text[0] or "").startswith("ab")


def test_a_suspended_request_can_be_exported() -> None:
    scheduler, other = make_scheduler(), make_scheduler()
    scheduler.add(BRIEF, [7], position=40)
    model_step(scheduler)
    scheduler.suspend(0)
    state = scheduler.export(0)
    assert state["position"] == 41
    other.add_exported(state, request_id="b")
    scheduler.resume(0)
    run_to_end(scheduler)
    run_to_end(other)
    assert other.record("b").token_ids == scheduler.record(0).token_ids


def test_grammars_that_are_text_move_and_others_are_asked_for() -> None:
    table = {"start": dict.fromkeys(range(9), "one"), "one": {3: "two", 4: "two"}, "two": {5: "start"}}
    scheduler, other = make_scheduler(), make_scheduler()
    scheduler.add(BRIEF, grammar=ToyMatcher(table), request_id="object")
    scheduler.add(BRIEF, grammar='start: "a"+', request_id="text")
    model_step(scheduler)
    objects, text = scheduler.export("object"), scheduler.export("text")
    with pytest.raises(ParameterError, match="grammar="):
        other.add_exported(objects)
    other.add_exported(objects, grammar=ToyMatcher(table))
    other.add_exported(text)
    run_to_end(scheduler)
    run_to_end(other)
    for request_id in ("object", "text"):
        assert outcome(other.record(request_id)) == outcome(scheduler.record(request_id))


def test_what_cannot_move_is_refused_and_stays() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(logits_processors=[lambda ids, row: row]), request_id="objects")
    scheduler.add_group(SamplingParams(use_beam_search=True, n=2), request_ids=["x", "y"])
    with pytest.raises(ParameterError, match="logits_processors"):
        scheduler.export("objects")
    with pytest.raises(RequestError, match="beam search"):
        scheduler.export("x")
    with pytest.raises(RequestError, match="unknown"):
        scheduler.export("nobody")
    scheduler.remove("objects")
    with pytest.raises(RequestError, match="unknown"):
        scheduler.export("objects")


WRONG: list[tuple[str, Any]] = [
    ("version", 2),
    ("params", None),
    ("params", {"temprature": 1}),
    ("params", {"temperature": "hot"}),
    ("seed", None),
    ("seed", "7"),
    ("position", -1),
    ("prompt_token_ids", "abc"),
    ("prompt_token_ids", [10**9]),
    ("token_ids", None),
    ("token_ids", [0.5]),
    ("notes", [1.0]),
    ("notes", "ab"),
    ("logprobs", [[1.0], 2.0]),
    ("logprobs", 3),
    ("logprobs", [10**400, 0.0]),
    ("request_id", [1]),
    ("streamed", 3),
    ("streamed", "all"),
]


@pytest.mark.parametrize(("member", "value"), WRONG)
def test_a_wrong_state_is_refused_with_one_clear_error(member: str, value: Any) -> None:
    scheduler, other = make_scheduler(), make_scheduler()
    scheduler.add(BRIEF, [1, 2])
    for _ in range(2):
        model_step(scheduler)
    state = scheduler.export(0)
    with pytest.raises(ParameterError):
        other.add_exported({**state, member: value})
    del state[member]
    with pytest.raises(ParameterError):
        other.add_exported(state)
    assert other.request_ids == []


VICTIM = """
import json, os, sys
import numpy as np
from tests.engines import make_scheduler, model_step
from tests.scheduler.test_moving import PARAMS

scheduler = make_scheduler(backend="native")
for number, params in enumerate(PARAMS):
    scheduler.add(params, [number % 40, 3], request_id=f"request {number}")
for step in range(1000):
    model_step(scheduler)
    states = [scheduler.export(i) for i in scheduler.request_ids]
    ended = scheduler._requests.known.keys() - set(scheduler.request_ids)
    finished = {i: scheduler.record(i).token_ids for i in ended}
    with open(sys.argv[1] + ".new", "w") as log:
        json.dump([states, finished], log)
    os.replace(sys.argv[1] + ".new", sys.argv[1])
    print(step, flush=True)
"""

PARAMS = [
    SamplingParams(**settings, seed=number, max_tokens=20 + number % 7)
    for number, settings in zip(range(64), list(CONFIGURATIONS) * 64, strict=False)
]


def test_requests_of_a_killed_process_go_on_from_their_log(tmp_path: Path) -> None:
    log = tmp_path / "states"
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(log)], stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout is not None
        while next(victim.stdout).strip() != "6":
            pass
        os.kill(victim.pid, signal.SIGKILL)
    states, finished = json.loads(log.read_text())
    scheduler = make_scheduler(backend="numpy")
    for state in states:
        scheduler.add_exported(state)
    run_to_end(scheduler)
    for number, params in enumerate(PARAMS):
        request_id = f"request {number}"
        found = finished.get(request_id) or scheduler.record(request_id).token_ids
        assert found == alone(params, [number % 40, 3]).token_ids
