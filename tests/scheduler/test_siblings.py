"""Fork, rollback, and groups of siblings: copies that continue independently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestError, SamplingParams
from engine_sampler.arithmetic import child_seed
from engine_sampler.contract import StoppingCriteria, StopVerdict

from ..engines import (
    CONFIGURATIONS,
    VOCAB,
    ToyMatcher,
    alone,
    make_scheduler,
    model_row,
    model_step,
    outcome,
    rows_for,
    run_to_end,
    snapshot,
)


class Budget(StoppingCriteria):
    """Ends a request when the sum of its token ids reaches 150."""

    name = "budget"

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: Any, vocabulary: Any) -> list[int]:
        return []

    def check(self, state: list[int], token_ids: Sequence[int], text: str) -> StopVerdict | None:
        state.extend(token_ids)
        return StopVerdict("budget") if sum(state) >= 150 else None

    def rollback(self, state: list[int], n: int) -> None:
        del state[len(state) - n :]


def params_of(configuration: Mapping[str, Any]) -> SamplingParams:
    return SamplingParams(**configuration, seed=31, max_tokens=15)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_fork_with_the_same_seed_continues_alike(configuration: Mapping[str, Any]) -> None:
    scheduler = make_scheduler()
    scheduler.add(params_of(configuration), [1, 2], request_id="parent", stopping_criteria=[Budget()])
    for _ in range(3):
        model_step(scheduler)
    if "parent" in scheduler.request_ids:
        assert scheduler.fork("parent", new_request_id="child") == "child"
        run_to_end(scheduler)
        assert outcome(scheduler.record("child")) == outcome(scheduler.record("parent"))


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_fork_that_diverges_does_not_change_its_parent(configuration: Mapping[str, Any]) -> None:
    params = params_of(configuration)
    scheduler = make_scheduler()
    scheduler.add(params, [1, 2], request_id="parent")
    model_step(scheduler)
    scheduler.fork("parent", new_request_id="child", seed=99)
    scheduler.accept("child", [0, 2, 4, 0, 2])
    scheduler.rollback("child", 2)
    run_to_end(scheduler)
    assert outcome(scheduler.record("parent")) == outcome(alone(params, [1, 2]))
    assert scheduler.record("child").seed == 99


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_after_a_rollback_the_same_logits_give_the_same_tokens(configuration: Mapping[str, Any]) -> None:
    scheduler = make_scheduler()
    params = params_of({**configuration, "min_tokens": 12})
    for name, criteria in (("a", [Budget()]), ("b", [])):
        scheduler.add(params, [1, 2, 1], request_id=name, stopping_criteria=criteria)
    for _ in range(3):
        model_step(scheduler)
    before = [
        (r.record(), r.stop_checks.criteria[-1][1].__repr__()) for r in scheduler._requests.known.values()
    ]
    states = snapshot(scheduler)
    for _ in range(5):
        model_step(scheduler)
    assert scheduler.request_ids == ["a", "b"]
    for name in "ab":
        scheduler.rollback(name, 5)
    assert [
        (r.record(), r.stop_checks.criteria[-1][1].__repr__()) for r in scheduler._requests.known.values()
    ] == before
    assert snapshot(scheduler) == states
    run_to_end(scheduler)
    assert outcome(scheduler.record("b")) == outcome(alone(params, [1, 2, 1]))


def test_a_rollback_undoes_half_characters_and_text_held_back() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(logit_bias={9: 200.0}))
    scheduler.accept(0, [0, 1, 4])
    scheduler.rollback(0, 2)
    assert scheduler.step(np.zeros((1, VOCAB), np.float32)).text == ["ade"]
    scheduler.rollback(0, 1)
    scheduler.accept(0, [2])
    assert scheduler.record(0).text == "a c"


def test_a_fork_copies_text_held_back() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(logit_bias={9: 200.0}))
    scheduler.accept(0, [0, 1])
    scheduler.fork(0)
    assert scheduler.step(np.zeros((2, VOCAB), np.float32)).text == ["abde", "abde"]


@pytest.mark.parametrize("n", [-1, 3])
def test_a_rollback_reaches_no_further_than_the_output(n: int) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), [1, 2, 3], output_token_ids=[4, 5])
    before = snapshot(scheduler)
    with pytest.raises(RequestError, match=f"n={n} is not allowed: request 0 has 2 output tokens"):
        scheduler.rollback(0, n)
    assert snapshot(scheduler) == before


def test_a_rollback_of_no_tokens_changes_nothing() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(mirostat=2, seed=1), grammar=ToyMatcher({"start": {1: "start", 4: "start"}}))
    model_step(scheduler)
    before = snapshot(scheduler)
    scheduler.rollback(0, 0)
    assert snapshot(scheduler) == before


@pytest.mark.parametrize("seed", [-2, 2**64, 1.5])
def test_a_fork_with_a_wrong_seed_is_refused_before_anything_changes(seed: Any) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(seed=1))
    before = snapshot(scheduler)
    with pytest.raises(ParameterError, match=f"seed={seed}"):
        scheduler.fork(0, seed=seed)
    assert snapshot(scheduler) == before


def test_a_fork_continues_at_its_parents_position() -> None:
    row = model_row([])[None]
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(seed=5), position=40)
    scheduler.step(row)
    scheduler.fork(0)
    drawn = scheduler.step(np.repeat(row, 2, axis=0)).token_ids
    assert drawn[0] == drawn[1]
    assert scheduler._requests.slots.positions[:2].tolist() == [42, 42]


# --- groups --------------------------------------------------------------------------------------


def test_siblings_have_child_seeds_and_share_their_first_row() -> None:
    scheduler = make_scheduler()
    params = SamplingParams(n=4, seed=77, temperature=1.5, max_tokens=6)
    ids = scheduler.add_group(params, [1, 2])
    first = np.broadcast_to(model_row([1, 2]), (4, VOCAB))
    result = scheduler.step(first, ids)
    assert result.seeds == [child_seed(77, i) for i in range(4)]
    run_to_end(scheduler)
    for i, request_id in enumerate(ids):
        expected = alone(params.replace(n=1, seed=child_seed(77, i)), [1, 2])
        assert outcome(scheduler.record(request_id)) == outcome(expected)


def test_a_group_may_have_its_own_ids_and_a_grammar_for_each_sibling() -> None:
    scheduler = make_scheduler()
    grammar = ToyMatcher({"start": {1: "second", 3: "second"}, "second": {2: "end"}})
    ids = scheduler.add_group(SamplingParams(n=3, seed=1), request_ids=["a", "b", "c"], grammar=grammar)
    assert ids == ["a", "b", "c"] == scheduler.request_ids
    run_to_end(scheduler)
    assert all(scheduler.record(r).token_ids in ([1, 2], [3, 2]) for r in ids)


@pytest.mark.parametrize("request_ids", [["a"], ["a", "a"], ["a", "b", "c"]])
def test_a_group_needs_as_many_different_ids_as_siblings(request_ids: list[str]) -> None:
    scheduler = make_scheduler()
    with pytest.raises(RequestError, match="is not allowed: 2 different ids"):
        scheduler.add_group(SamplingParams(n=2), request_ids=request_ids)


def test_a_group_with_a_taken_id_adds_no_request() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), request_id="b")
    with pytest.raises(RequestError, match="request id 'b' is taken"):
        scheduler.add_group(SamplingParams(n=2), request_ids=["a", "b"])
    assert scheduler.request_ids == ["b"]


def test_the_best_of_a_group_have_the_greatest_sum_of_raw_logprobs() -> None:
    scheduler = make_scheduler()
    ids = scheduler.add_group(SamplingParams(n=2, best_of=5, seed=3, temperature=2.0, max_tokens=5), [1])
    totals = dict.fromkeys(ids, 0.0)
    while live := scheduler.request_ids:
        rows = rows_for(scheduler, live).astype(np.float64)
        chosen = scheduler.step(rows.astype(np.float32), live).token_ids
        logprobs = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
        for i, request_id in enumerate(live):
            totals[request_id] += logprobs[i, chosen[i]]
    assert [scheduler.record(r).cumulative_logprob for r in ids] == pytest.approx(
        [totals[r] for r in ids], rel=1e-5
    )
    assert scheduler.best(ids) == sorted(ids, key=lambda r: -totals[r])[:2]


def test_without_best_of_all_siblings_are_kept_in_order_and_not_scored() -> None:
    scheduler = make_scheduler()
    ids = scheduler.add_group(SamplingParams(n=3, max_tokens=2))
    run_to_end(scheduler)
    assert scheduler.best(ids) == ids
    assert scheduler.record(ids[0]).cumulative_logprob is None


def test_a_rollback_reduces_the_cumulative_logprob() -> None:
    scheduler = make_scheduler()
    (request_id,) = scheduler.add_group(SamplingParams(best_of=1, seed=3))
    totals = [scheduler.record(request_id).cumulative_logprob]
    for _ in range(3):
        model_step(scheduler)
        totals.append(scheduler.record(request_id).cumulative_logprob)
    scheduler.rollback(request_id, 2)
    assert scheduler.record(request_id).cumulative_logprob == totals[1]


def test_a_sibling_that_failed_is_never_the_best() -> None:
    scheduler = make_scheduler()
    ids = scheduler.add_group(SamplingParams(n=1, best_of=3, seed=3, max_tokens=3))
    rows = rows_for(scheduler, ids)
    rows[1] = np.nan
    scheduler.step(rows)
    run_to_end(scheduler)
    assert scheduler.record(ids[1]).cumulative_logprob == 0.0
    assert scheduler.best(ids)[0] in (ids[0], ids[2])
