"""Continuous batching: whatever else is in the batch, a request gets the tokens that it would get alone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler import SamplingParams, Scheduler, process_logits

from ..engines import (
    CONFIGURATIONS,
    TOKENIZER,
    VOCAB,
    alone,
    make_scheduler,
    model_row,
    model_step,
    outcome,
    rows_for,
    run_to_end,
    snapshot,
)


def random_request(chance: random.Random) -> tuple[SamplingParams, list[int]]:
    params = SamplingParams(
        **chance.choice(CONFIGURATIONS), seed=chance.randrange(2**64), max_tokens=chance.randint(1, 12)
    )
    return params, [chance.randrange(6) for _ in range(chance.randint(0, 8))]


@settings(max_examples=12, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_requests_that_join_and_leave_at_random_get_the_tokens_of_a_run_alone(
    chance: random.Random,
) -> None:
    scheduler = make_scheduler()
    given_to: dict[Any, tuple[SamplingParams, list[int]]] = {}
    for _ in range(15):
        for _ in range(chance.choice((0, 0, 1, 3))):
            params, prompt = random_request(chance)
            given_to[scheduler.add(params, prompt)] = params, prompt
        live = scheduler.request_ids
        if live and chance.random() < 0.2:
            leaving = chance.choice(live)
            record = scheduler.remove(leaving)
            expected = alone(*given_to.pop(leaving)).token_ids
            assert record.token_ids == expected[: len(record.token_ids)]
            live.remove(leaving)
        chance.shuffle(live)
        model_step(scheduler, live[: chance.randint(0, len(live))])
    run_to_end(scheduler)
    for request_id, (params, prompt) in given_to.items():
        assert outcome(scheduler.record(request_id)) == outcome(alone(params, prompt)), params


def test_sixty_four_mixed_requests_run_to_their_ends_as_if_alone() -> None:
    chance = random.Random(64)
    scheduler = make_scheduler()
    requests = {}
    for i in range(64):
        params = SamplingParams(**CONFIGURATIONS[i % len(CONFIGURATIONS)], seed=i, max_tokens=20)
        prompt = [chance.randrange(6)] * (i % 4)
        requests[scheduler.add(params, prompt)] = params, prompt
    run_to_end(scheduler)
    for request_id in list(requests)[::7]:
        assert outcome(scheduler.record(request_id)) == outcome(alone(*requests[request_id]))
    assert all(scheduler.record(r).finish_reason in ("stop", "length") for r in requests)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_step_of_some_requests_leaves_the_others_untouched(configuration: dict[str, Any]) -> None:
    scheduler = make_scheduler()
    params = SamplingParams(**configuration, seed=5, max_tokens=10)
    for name in "abc":
        scheduler.add(params, [1, 2, 1], request_id=name)
    model_step(scheduler, ["c", "a"])
    model_step(scheduler, ["a", "c"])
    assert scheduler.record("b").token_ids == []
    run_to_end(scheduler)
    assert [outcome(scheduler.record(name)) for name in "abc"] == [outcome(alone(params, [1, 2, 1]))] * 3


def test_rows_follow_the_given_order() -> None:
    scheduler = make_scheduler()
    for name, token in (("a", 3), ("b", 4)):
        scheduler.add(SamplingParams(logit_bias={token: 100.0}), request_id=name)
    result = model_step(scheduler, ["b", "a"])
    assert result.request_ids == ["b", "a"]
    assert result.token_ids.tolist() == [4, 3]


def test_one_row_of_memory_may_serve_as_many_rows() -> None:
    row = model_row([1])
    repeated = np.broadcast_to(row, (3, VOCAB))
    assert repeated.strides[0] == 0
    results = []
    for logits in (repeated, np.stack([row] * 3)):
        scheduler = make_scheduler()
        for seed in range(3):
            scheduler.add(SamplingParams(seed=seed, repetition_penalty=1.2, top_k=20), [1])
        results.append(scheduler.step(logits).token_ids.tolist())
    assert results[0] == results[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_callers_logits_keep_their_bits(dtype: Any) -> None:
    scheduler = make_scheduler()
    for i, configuration in enumerate(CONFIGURATIONS):
        scheduler.add(SamplingParams(**configuration, seed=i), [1, 2, 3])
    for _ in range(3):
        logits = rows_for(scheduler, scheduler.request_ids).astype(dtype)
        before = logits.tobytes()
        scheduler.process(logits)
        scheduler.step(logits)
        assert logits.tobytes() == before


def test_read_only_logits_work() -> None:
    scheduler = make_scheduler()
    for configuration in CONFIGURATIONS:
        scheduler.add(SamplingParams(**configuration))
    logits = rows_for(scheduler, scheduler.request_ids)
    logits.flags.writeable = False
    assert (scheduler.step(logits).token_ids >= 0).all()


def test_columns_beyond_the_vocabulary_are_never_read() -> None:
    plain = alone(SamplingParams(seed=3, max_tokens=8), [2])
    scheduler = make_scheduler()
    request_id = scheduler.add(SamplingParams(seed=3, max_tokens=8), [2])
    while scheduler.request_ids:
        row = rows_for(scheduler, [request_id])
        scheduler.step(np.concatenate([row, np.full((1, 24), np.nan, np.float32)], axis=1))
    assert outcome(scheduler.record(request_id)) == outcome(plain)


def test_slots_are_reused_by_requests_of_other_shapes() -> None:
    scheduler = make_scheduler()
    for configuration in CONFIGURATIONS * 2:
        params = SamplingParams(**configuration, seed=9, max_tokens=4)
        request_id = scheduler.add(params, [1])
        run_to_end(scheduler)
        assert outcome(scheduler.remove(request_id)) == outcome(alone(params, [1]))
    assert len(scheduler._requests.slots._free) == len(scheduler._requests.slots.entries)


def test_a_step_without_requests_has_an_empty_result() -> None:
    scheduler = make_scheduler()
    result = scheduler.step(np.empty((0, VOCAB), np.float32))
    assert result.token_ids.tolist() == []
    assert result.request_ids == []
    assert result.logprobs is None


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_process_returns_the_row_that_the_token_is_chosen_from_and_changes_nothing(
    configuration: dict[str, Any],
) -> None:
    scheduler = make_scheduler()
    params = SamplingParams(**{**configuration, "ignore_eos": False, "min_tokens": 0}, seed=1)
    scheduler.add(params, [1, 2, 3, 1, 2], output_token_ids=[3, 1])
    row = rows_for(scheduler, [0])
    before = snapshot(scheduler)
    processed = scheduler.process(row)
    assert snapshot(scheduler) == before
    same = process_logits(
        row, params, prompt_token_ids=[[1, 2, 3, 1, 2]], output_token_ids=[[3, 1]], tokenizer=TOKENIZER
    )
    assert processed.tobytes() == same.tobytes()
    drawn = scheduler.step(row).token_ids[0]
    assert processed[0, drawn] > -np.inf


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_the_row_before_the_choice_is_that_of_the_chain_without_temperature_zero(
    configuration: dict[str, Any],
) -> None:
    given = {**configuration, "ignore_eos": False, "min_tokens": 0, "seed": 1, "mirostat": 0}
    given |= {"temperature_schedule": [], "ras_win_len": 0}  # as mirostat, they are not there at 0
    scheduler = make_scheduler()
    for temperature in (0.0, 1.0):
        scheduler.add(SamplingParams(**{**given, "temperature": temperature, "dynatemp_range": 0.0}))
    row = rows_for(scheduler, [0])
    greedy, drawing = scheduler.process(row[[0, 0]], before_choice=True)
    assert (greedy > -np.inf).sum() >= (drawing > -np.inf).sum()
    both = (greedy > -np.inf) & (drawing > -np.inf)
    assert greedy[both].tobytes() == drawing[both].tobytes()
    assert scheduler.process(row[[0, 0]])[1].tobytes() == drawing.tobytes()
    assert (scheduler.process(row[[0, 0]])[0] > -np.inf).sum() == 1


def test_the_result_does_not_depend_on_the_number_of_threads() -> None:
    results = []
    for num_threads in (1, 4):
        scheduler = Scheduler(VOCAB, TOKENIZER, num_threads=num_threads)
        for seed in range(8):
            scheduler.add(SamplingParams(seed=seed, max_tokens=5))
        run_to_end(scheduler)
        results.append([scheduler.record(r).token_ids for r in range(8)])
    assert results[0] == results[1]
