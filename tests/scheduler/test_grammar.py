"""Grammars: any object with a matcher's methods constrains a request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams

from ..engines import (
    EOS,
    VOCAB,
    ToyMatcher,
    alone,
    make_scheduler,
    model_row,
    model_step,
    outcome,
    run_to_end,
)

LOOP = {"start": {1: "start", 2: "start", 35: "start"}}
THREE = {"start": {1: "second"}, "second": {2: "third", 3: "third"}, "third": {4: "end"}}


class Compiled:
    """A compiled grammar: it creates matchers."""

    def matcher(self) -> ToyMatcher:
        return ToyMatcher(THREE)


class Raising(ToyMatcher):
    """A matcher whose method `broken` raises after a token."""

    def __init__(self, broken: str) -> None:
        super().__init__(LOOP)
        self.broken = broken

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "__dict__").get("broken") and len(self.states) > 1:
            raise RuntimeError("lost its place")
        return super().__getattribute__(name)


class AcceptRaises(ToyMatcher):
    def accept(self, token_id: int) -> bool:
        raise RuntimeError("lost its place")


@pytest.mark.parametrize("grammar", [ToyMatcher(THREE), Compiled()])
def test_a_grammar_constrains_every_token_and_ends_the_text(grammar: Any) -> None:
    record = alone(SamplingParams(seed=1), grammar=grammar)
    assert record.token_ids in ([1, 2, 4], [1, 3, 4])
    assert (record.finish_reason, record.stop_reason) == ("stop", None)


def test_a_grammar_constrains_its_own_request_only() -> None:
    scheduler = make_scheduler()
    params = SamplingParams(seed=2, max_tokens=8, top_k=5)
    scheduler.add(params, request_id="free")
    scheduler.add(params, request_id="bound", grammar=ToyMatcher(LOOP))
    run_to_end(scheduler)
    assert outcome(scheduler.record("free")) == outcome(alone(params))
    assert set(scheduler.record("bound").token_ids) <= set(LOOP["start"])


def test_the_constrained_draw_is_the_draw_from_a_masked_row() -> None:
    row = model_row([])
    masked = np.full(VOCAB, -np.inf, np.float32)
    for token_id in LOOP["start"]:
        masked[token_id] = row[token_id]
    for seed in range(20):
        drawn = []
        for logits, grammar in ((row, ToyMatcher(LOOP)), (masked, None)):
            scheduler = make_scheduler()
            scheduler.add(SamplingParams(seed=seed), grammar=grammar)
            drawn.append(scheduler.step(logits[None]).token_ids[0])
        assert drawn[0] == drawn[1]


def test_a_mask_is_filled_once_per_token() -> None:
    scheduler = make_scheduler()
    matcher = ToyMatcher(LOOP)
    scheduler.add(SamplingParams(seed=1), grammar=matcher)
    for n in range(1, 4):
        scheduler.prepare()
        scheduler.prepare([0])
        assert matcher.fills == n
        scheduler.step(model_row([])[None])
        assert matcher.fills == n


def test_process_fills_its_own_masks() -> None:
    scheduler = make_scheduler()
    matcher = ToyMatcher(LOOP)
    scheduler.add(SamplingParams(seed=1), grammar=matcher)
    scheduler.prepare()
    first, second = (scheduler.process(model_row([])[None]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    model_step(scheduler)
    assert matcher.fills == 3


def test_prepare_changes_no_token() -> None:
    params = SamplingParams(seed=3, max_tokens=6)
    scheduler = make_scheduler()
    scheduler.add(params, grammar=ToyMatcher(LOOP))
    while scheduler.request_ids:
        scheduler.prepare()
        model_step(scheduler)
    assert outcome(scheduler.record(0)) == outcome(alone(params, grammar=ToyMatcher(LOOP)))


def test_a_dead_end_ends_its_request_with_an_error_that_names_the_grammar() -> None:
    scheduler = make_scheduler()
    params = SamplingParams(seed=4, max_tokens=4)
    scheduler.add(params, request_id="dead", grammar=ToyMatcher({"start": {1: "trap"}, "trap": {}}))
    scheduler.add(params, request_id="other")
    run_to_end(scheduler)
    record = scheduler.record("dead")
    assert (record.token_ids, record.finish_reason) == ([1], "error")
    assert record.error == "the grammar leaves no token"
    assert outcome(scheduler.record("other")) == outcome(alone(params))


@pytest.mark.parametrize("method", ["fill_bitmask", "accept", "is_terminated"])
def test_a_matcher_that_raises_ends_only_its_request(method: str) -> None:
    scheduler = make_scheduler()
    params = SamplingParams(seed=4, max_tokens=5)
    scheduler.add(params, request_id="broken", grammar=Raising(method))
    scheduler.add(params, request_id="other")
    scheduler.add(params, request_id="sound", grammar=ToyMatcher(LOOP))
    run_to_end(scheduler)
    assert scheduler.record("broken").error == "the grammar failed: RuntimeError: lost its place"
    assert outcome(scheduler.record("other")) == outcome(alone(params))
    assert outcome(scheduler.record("sound")) == outcome(alone(params, grammar=ToyMatcher(LOOP)))


def test_a_matcher_that_fails_in_prepare_is_reported_by_the_next_step() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), grammar=Raising("fill_bitmask"))
    model_step(scheduler)
    scheduler.prepare()
    result = model_step(scheduler)
    assert result.token_ids.tolist() == [-1]
    assert result.errors == ["the grammar failed: RuntimeError: lost its place"]
    assert scheduler.request_ids == []


def test_process_shows_a_failing_grammar_as_nan_and_leaves_the_request_alive() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), grammar=Raising("fill_bitmask"))
    model_step(scheduler)
    assert np.isnan(scheduler.process(model_row([])[None])).all()
    assert scheduler.request_ids == [0]
    assert scheduler.record(0).finish_reason is None


def test_process_applies_the_mask() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), grammar=ToyMatcher(LOOP))
    processed = scheduler.process(model_row([])[None])
    assert np.flatnonzero(processed[0] > -np.inf).tolist() == sorted(LOOP["start"])


@pytest.mark.parametrize(
    ("matcher", "words"),
    [(ToyMatcher(THREE), "the grammar refuses token 9"), (AcceptRaises(LOOP), "the grammar failed: Runtime")],
)
def test_a_token_from_elsewhere_that_the_grammar_refuses_ends_the_request(matcher: Any, words: str) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), grammar=matcher)
    scheduler.accept(0, [9])
    record = scheduler.record(0)
    assert (record.token_ids, record.finish_reason) == ([], "error")
    assert record.error is not None
    assert record.error.startswith(words)
    assert scheduler.request_ids == []


def test_a_refused_draw_leaves_no_token_in_result_or_record() -> None:
    class Refusing(ToyMatcher):
        def accept(self, token_id: int) -> bool:
            return False

    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), grammar=Refusing(LOOP))
    result = model_step(scheduler)
    assert result.token_ids.tolist() == [-1]
    assert result.errors[0] is not None
    assert result.errors[0].startswith("the grammar refuses token")
    assert scheduler.record(0).token_ids == []


@pytest.mark.parametrize("settings", [{"min_tokens": 5}, {"ignore_eos": True}])
def test_a_grammar_that_allows_only_eos_overrides_min_tokens_and_ignore_eos(settings: Any) -> None:
    record = alone(SamplingParams(**settings), grammar=ToyMatcher({"start": {EOS: "end"}}))
    assert (record.token_ids, record.finish_reason, record.stop_reason) == ([EOS], "stop", None)


def test_output_to_resume_from_must_obey_the_grammar() -> None:
    scheduler = make_scheduler()
    with pytest.raises(ParameterError, match="output_token_ids: the grammar refuses token 9"):
        scheduler.add(SamplingParams(), output_token_ids=[1, 9], grammar=ToyMatcher(THREE))
    request_id = scheduler.add(SamplingParams(), output_token_ids=[1, 3], grammar=ToyMatcher(THREE))
    assert model_step(scheduler).token_ids.tolist() == [4]
    assert scheduler.record(request_id).finish_reason == "stop"


def test_a_matcher_rolls_back_and_forks_with_its_request() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(temperature=0), request_id="parent", grammar=ToyMatcher(THREE))
    model_step(scheduler)
    scheduler.fork("parent", new_request_id="child")
    scheduler.rollback("parent", 1)
    result = model_step(scheduler)
    assert result.token_ids[0] == 1
    assert result.token_ids[1] in (2, 3)


@pytest.mark.parametrize("value", [object(), 7, "jsonn"])
def test_a_value_that_is_not_a_grammar_is_refused(value: Any) -> None:
    scheduler = make_scheduler()
    with pytest.raises(ParameterError, match=r"^grammar=.* is not allowed"):
        scheduler.add(SamplingParams(), grammar=value)
    assert scheduler.request_ids == []
