"""A request that is exported continues elsewhere as if it had stayed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine_sampler import ParameterError, RequestError, SamplingParams, Scheduler

from ..engines import (
    CONFIGURATIONS,
    ToyMatcher,
    alone,
    make_scheduler,
    model_step,
    outcome,
    run_to_end,
)

PLAIN = SamplingParams(seed=4, max_tokens=8)


def moved(scheduler: Scheduler, request_id: Any, **keywords: Any) -> Scheduler:
    """Another scheduler, with the other backend, that has the request in place of this one."""
    state = json.loads(json.dumps(scheduler.export(request_id)))
    scheduler.remove(request_id)
    other = make_scheduler(backend="numpy" if scheduler.backend is None else "native")
    assert other.add_exported(state, **keywords) == request_id
    return other


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
    params = PLAIN.replace(mirostat=2, max_tokens=12)
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
    scheduler.add(PLAIN)
    scheduler.accept(0, [0, 1])
    assert (model_step(moved(scheduler, 0)).text[0] or "").startswith("ab")


def test_a_suspended_request_can_be_exported() -> None:
    scheduler, other = make_scheduler(), make_scheduler()
    scheduler.add(PLAIN, [7], position=40)
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
    scheduler.add(PLAIN, grammar=ToyMatcher(table), request_id="object")
    scheduler.add(PLAIN, grammar='start: "a"+', request_id="text")
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
    ("streamed", 3),
    ("streamed", "all"),
]


@pytest.mark.parametrize(("member", "value"), WRONG)
def test_a_wrong_state_is_refused_with_one_clear_error(member: str, value: Any) -> None:
    scheduler, other = make_scheduler(), make_scheduler()
    scheduler.add(PLAIN, [1, 2])
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
