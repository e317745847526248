"""What must hold inside a scheduler at any time, and calls that it must refuse."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from engine_sampler import ParameterError, RequestError, SamplingParams, Scheduler
from engine_sampler.requests.history import TokenPool
from engine_sampler.requests.slots import Slots

from .plugins import table_matcher
from .workload import VOCAB, Random

REFUSALS = (RequestError, ParameterError, ValueError, TypeError)


def expect_sound(scheduler: Scheduler) -> None:
    """Slots, pool and watchers belong to the live requests, and to no others."""
    live = [scheduler._requests.known[i] for i in scheduler.request_ids]
    slots = scheduler._requests.slots
    taken = [request.slot for request in live]
    assert sorted([*taken, *slots._free]) == list(range(len(slots.entries))), "slots leak"
    for request in live:
        assert slots.entries[request.slot] is request.state
        assert int(slots.seeds[request.slot]) == request.seed
    for slot in slots._free:
        assert slots.entries[slot] is None
        assert slots.given(slot) == {}
    for request in scheduler._requests.known.values():
        assert (request.slot >= 0) == (request.id in scheduler._requests.live), (
            "a finished request has a slot"
        )
    _expect_columns(slots)
    _expect_triggers(slots, [(r.slot, r.check_trigger()) for r in live])
    _expect_pool(slots.pool, taken)


def _expect_columns(slots: Slots) -> None:
    for name, column in slots._columns.items():
        for slot, value in enumerate(column.tolist()):
            expected = slots.given(slot).get(name, slots.params[name].neutral)
            same = value == expected or value is expected
            assert same, f"column {name} of slot {slot} is {value!r}, not {expected!r}"


def _expect_triggers(slots: Slots, triggers: Sequence[tuple[int, Any]]) -> None:
    watchers = np.zeros(slots.vocabulary.size, np.int64)
    watched = [one.token_ids for one in slots._triggers if len(one.token_ids)]
    for token_ids in {id(token_ids): token_ids for token_ids in watched}.values():
        watchers[token_ids] += 1
    assert slots._users == Counter(map(id, watched)), "users leak"
    assert len(watched) == sum(len(trigger.token_ids) > 0 for _, trigger in triggers)
    for slot, trigger in triggers:
        assert slots._triggers[slot].token_ids.tolist() == trigger.token_ids.tolist()
        assert slots.limits[slot] == trigger.length
        assert slots.always[slot] == trigger.always
    assert slots._watchers.tolist() == watchers.tolist(), "watchers leak"
    assert slots.watched.tolist() == (watchers > 0).tolist()


def _expect_pool(pool: TokenPool, taken: Sequence[int]) -> None:
    assert np.flatnonzero(pool._sizes).tolist() == sorted(taken), "regions leak"
    regions = sorted((int(pool.offsets[s]), int(pool._sizes[s]), int(pool.lengths[s])) for s in taken)
    cells = sorted([*((offset, size) for offset, size, _ in regions), *pool._gaps, *pool._left])
    starts, ends = [start for start, _ in cells], [sum(cell) for cell in cells]
    assert [0, *ends] == [*starts, len(pool.tokens)], "cells overlap or leak"
    for _, size, length in regions:
        assert length <= size, "a region overflows"
        assert size - length >= min(pool._room, size)
    assert not pool.lengths[pool._sizes == 0].any()


def digest(scheduler: Scheduler) -> bytes:
    """A digest of everything that a refused call must not change."""
    state: list[Any] = [scheduler.request_ids, sorted(map(repr, scheduler._requests.known))]
    slots = scheduler._requests.slots
    for request in scheduler._requests.known.values():
        state += [repr(request.record()), request.stop_checks._checked, request.raw_logprobs]
        state += [[repr(s) for _, s in request.stop_checks.criteria if isinstance(s, (list, int, float))]]
        if request.text is not None:
            state += [request.text.deltas, request.text._sent, id(request.text.state)]
        if request.slot >= 0:
            state += [int(slots.positions[request.slot]), int(slots.seeds[request.slot])]
            state += [request.state.history.output_notes.tobytes()]
    return pickle.dumps(repr(state))


def wrong_calls(scheduler: Scheduler, random: Random) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls that must raise: (what is wrong, the call)."""
    live, unknown = scheduler.request_ids, "unknown"
    plain, row = SamplingParams(), np.zeros((1, VOCAB), np.float32)
    rows = np.zeros((len(live), VOCAB), np.float32)
    yield "unknown to step, strictly", lambda: scheduler.step(row, [unknown], strict=True)
    yield "unknown to step", lambda: scheduler.step(row, [unknown])
    yield "unknown to process", lambda: scheduler.process(row, [unknown])
    yield "unknown to prepare", lambda: scheduler.prepare([unknown])
    yield "unknown to accept", lambda: scheduler.accept(unknown, [1])
    yield "unknown to rollback", lambda: scheduler.rollback(unknown, 0)
    yield "unknown to fork", lambda: scheduler.fork(unknown)
    yield "unknown to remove", lambda: scheduler.remove(unknown)
    yield "unknown to record", lambda: scheduler.record(unknown)
    yield "unknown to forced_tokens", lambda: scheduler.forced_tokens(unknown)
    yield "unknown to draft", lambda: scheduler.draft([unknown])
    yield "one row too many", lambda: scheduler.step(np.zeros((len(live) + 1, VOCAB), np.float32))
    yield "several in add", lambda: scheduler.add(SamplingParams(n=2))
    yield "a prompt outside", lambda: scheduler.add(plain, [0, VOCAB])
    yield "an output outside", lambda: scheduler.add(plain, output_token_ids=[-1])
    yield "not a criterion", lambda: scheduler.add(plain, stopping_criteria=["stop"])  # type: ignore[list-item]
    yield "a position below 0", lambda: scheduler.add(plain, position=-1)
    yield "an output refused", lambda: scheduler.add(plain, output_token_ids=[1], grammar=table_matcher())
    yield "two grammars", lambda: scheduler.add(SamplingParams(regex="a"), grammar=table_matcher())
    yield "wrong ids for a group", lambda: scheduler.add_group(SamplingParams(n=2), request_ids=["one"])
    yield "an id twice in a group", lambda: scheduler.add_group(SamplingParams(n=2), request_ids=["x", "x"])
    if not live:
        return
    request_id = live[random.integers(len(live))]
    have = len(scheduler.record(request_id).token_ids)
    yield "an id twice", lambda: scheduler.step(np.zeros((2, VOCAB), np.float32), [request_id, request_id])
    yield "narrow logits", lambda: scheduler.step(rows[:, :-1])
    yield "one row flat", lambda: scheduler.step(rows[0])
    yield "another dtype", lambda: scheduler.step(rows.astype(np.float64))
    yield "drafts for too few", lambda: scheduler.step(rows, live, [[]] * (len(live) - 1))
    yield "a draft outside", lambda: scheduler.step(rows, live, [[VOCAB]] * len(live))
    yield "drafts for an unknown request", lambda: scheduler.step(rows, live, {unknown: [1]})
    yield "a tree outside", lambda: scheduler.step(rows, live, draft_trees=[([VOCAB], [-1])] * len(live))
    yield "a tree in a circle", lambda: scheduler.step(rows, live, draft_trees=[([1], [0])] * len(live))
    yield "drafts without rows", lambda: scheduler.step(row, [request_id], [[1]])
    yield "to accept outside", lambda: scheduler.accept(request_id, [1, VOCAB])
    yield "to accept a nested list", lambda: scheduler.accept(request_id, [[1]])  # type: ignore[list-item]
    yield "to roll back too much", lambda: scheduler.rollback(request_id, have + 1)
    yield "to roll back a negative number", lambda: scheduler.rollback(request_id, -1)
    yield "an invalid seed", lambda: scheduler.fork(request_id, seed=2**64)
    yield "an id taken by add", lambda: scheduler.add(plain, request_id=request_id)
    yield "an id taken by fork", lambda: scheduler.fork(request_id, new_request_id=request_id)
    yield (
        "an id taken by a group",
        lambda: scheduler.add_group(SamplingParams(n=2), request_ids=["new", request_id]),
    )
    ended = next((i for i in scheduler._requests.known if i not in live), None)
    if ended is not None:
        yield "ended, to step", lambda: scheduler.step(row, [ended], strict=True)
        yield "ended, to accept", lambda: scheduler.accept(ended, [1])
        yield "ended, to fork", lambda: scheduler.fork(ended)
        yield "ended, to rollback", lambda: scheduler.rollback(ended, 0)
    failed = next((i for i in live if scheduler.record(i).finish_reason == "error"), None)
    if failed is not None:
        yield "failed, to accept", lambda: scheduler.accept(failed, [1])
        yield "failed, to fork", lambda: scheduler.fork(failed)
        yield "failed, to rollback", lambda: scheduler.rollback(failed, 0)
    beam = next((i for i in live if i in scheduler._requests.groups), None)
    if beam is not None:
        yield "a beam without its search", lambda: scheduler.step(row, [beam])
        yield "a beam, to accept", lambda: scheduler.accept(beam, [1])
        yield "a beam, to fork", lambda: scheduler.fork(beam)
        yield "a beam, to rollback", lambda: scheduler.rollback(beam, 0)
        yield "a beam with drafts", lambda: scheduler.step(rows, live, [[]] * len(live))
        yield "a beam with trees", lambda: scheduler.step(rows, live, draft_trees=[None] * len(live))


def expect_refusals(scheduler: Scheduler, random: Random, count: int) -> None:
    """`count` wrong calls raise the expected errors, and change nothing."""
    calls = list(wrong_calls(scheduler, random))
    before = digest(scheduler)
    for i in random.choice(len(calls), min(count, len(calls)), replace=False):
        what, call = calls[i]
        try:
            call()
        except REFUSALS:
            assert digest(scheduler) == before, f"a refused call changed something: {what}"
        else:
            raise AssertionError(f"a wrong call was not refused: {what}")
