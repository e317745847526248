"""Requests that need more work than one step may do: they are postponed, without effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, Tokenizer, sample
from engine_sampler.contract import Work
from engine_sampler.grammar import Grammar
from engine_sampler.grammar.compiled import CompiledGrammar
from engine_sampler.requests import budget as budget_module
from engine_sampler.requests.budget import Budget

from ..bytewise import EOS, TOKENIZER, VOCAB, fresh_tokenizer, needs_native_engine

pytestmark = needs_native_engine

PATTERNS = [r"(\w|\d|[^a-z]){1,60}", "((a{0,9}){0,9}){0,9}", ".*a.{6}b", "red|[ab]{3,30}", "(a|b)*a(a|b){5}"]


def rows_of(scheduler: Scheduler) -> np.ndarray:
    """Logits that depend on the request and on how many tokens it has: a postponed request gets the same
    ones again."""
    rows = []
    for request_id in scheduler.request_ids:
        have = len(scheduler.record(request_id).token_ids)
        rows.append(np.random.default_rng([int(request_id), have]).normal(0, 3, VOCAB))
    return np.array(rows, np.float32)


def outcomes(budget: int | None, monkeypatch: pytest.MonkeyPatch, **keywords: Any) -> tuple[list[Any], int]:
    """How requests end whose step may do `budget` of work, and how many rows waited."""
    if budget is not None:
        monkeypatch.setattr(budget_module, "STEP_WORK", budget)
        monkeypatch.setattr(budget_module, "REQUEST_WORK", budget // 2)
    tokenizer = fresh_tokenizer()
    scheduler = Scheduler(VOCAB, tokenizer, **keywords)
    for seed, pattern in enumerate(PATTERNS):
        grammar = Grammar.from_regex(pattern).compile(tokenizer)
        scheduler.add(SamplingParams(seed=seed, max_tokens=12, logprobs=1), grammar=grammar)
    scheduler.add(SamplingParams(seed=9, max_tokens=12))
    ids, waits = list(scheduler.request_ids), 0
    for _ in range(3000):
        if not scheduler.request_ids:
            break
        result = scheduler.step(rows_of(scheduler))
        for row, reason in zip(result.token_ids, result.finish_reasons, strict=True):
            waits += row < 0 and reason is None
    monkeypatch.undo()
    records = [scheduler.record(request_id) for request_id in ids]
    return [(r.token_ids, r.text, r.finish_reason, r.error) for r in records], waits


@pytest.mark.parametrize("budget", [6_000, 12_000, 24_000])
@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_requests_that_wait_get_the_tokens_that_they_would_have_got(
    budget: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, none = outcomes(None, monkeypatch, backend=backend)
    found, waits = outcomes(budget, monkeypatch, backend=backend)
    assert found == expected
    assert none == 0
    assert waits > 0


def test_a_row_that_waits_gives_nothing_and_its_request_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "STEP_WORK", 0)
    scheduler = Scheduler(VOCAB, TOKENIZER)
    compiled: CompiledGrammar = Grammar.from_regex("[ab]{5}").compile(TOKENIZER)
    scheduler.add(SamplingParams(seed=1, logprobs=2), request_id=0, grammar=compiled)
    scheduler.add(SamplingParams(seed=2, logprobs=2), request_id=1)
    before = scheduler.record(0)
    for _ in range(3):
        result = scheduler.step(rows_of(scheduler))
        assert result.token_ids[0] == -1
        assert result.token_ids[1] >= 0
        assert (result.finish_reasons[0], result.errors[0]) == (None, None)
    assert scheduler.record(0) == before
    assert scheduler.request_ids == [0, 1]


def test_drafts_stop_where_their_request_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(SamplingParams(temperature=0), grammar=Grammar.from_regex("abcabc").compile(TOKENIZER))
    flat = np.zeros((3, VOCAB), np.float32)
    monkeypatch.setattr(budget_module, "STEP_WORK", 0)
    assert scheduler.step(flat, None, [[97, 98]]).token_ids.tolist() == [-1, -1, -1]
    monkeypatch.undo()
    assert scheduler.step(flat, None, [[97, 98]]).token_ids.tolist() == [97, 98, 99]


def test_beams_wait_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(wait: bool) -> list[Any]:
        scheduler = Scheduler(VOCAB, TOKENIZER)
        params = SamplingParams(use_beam_search=True, beam_width=2, max_tokens=4)
        ids = scheduler.add_group(params, grammar=Grammar.from_regex("[ab]{6}").compile(TOKENIZER))
        rows = np.random.default_rng(3).normal(0, 3, (2, VOCAB)).astype(np.float32)
        for n in range(20):
            if not scheduler.request_ids:
                break
            if wait and n % 2 == 0:
                monkeypatch.setattr(budget_module, "STEP_WORK", 0)
                result = scheduler.step(rows)
                assert result.token_ids.tolist() == [-1, -1]
                assert result.parent_ids == ids
                monkeypatch.undo()
            scheduler.step(rows)
        return [scheduler.record(request_id).token_ids for request_id in ids]

    assert found(True) == found(False)


def test_many_requests_whose_parts_do_not_suffice_for_what_they_share_do_not_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To keep a mask of many tokens is one piece of work; here an equal part is less than that."""
    monkeypatch.setattr(budget_module, "STEP_WORK", 6_000)
    monkeypatch.setattr(budget_module, "REQUEST_WORK", 3_000)
    tokenizer = fresh_tokenizer()
    scheduler, grammar = Scheduler(VOCAB, tokenizer), Grammar.from_regex(".+").compile(tokenizer)
    for seed in range(128):
        scheduler.add(SamplingParams(seed=seed), grammar=grammar)
    for _ in range(12):
        scheduler.prepare()
    assert (scheduler.step(np.zeros((128, VOCAB), np.float32)).token_ids >= 0).all()


def test_cheap_requests_do_not_wait_for_dear_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request first gets an equal part of the step's work."""
    monkeypatch.setattr(budget_module, "STEP_WORK", 40_000)
    monkeypatch.setattr(budget_module, "REQUEST_WORK", 40_000)
    tokenizer = fresh_tokenizer()
    dear = Grammar.from_regex(r"(\w|\d|\s|[^a-z]){1,500}" * 20).compile(tokenizer)
    cheap = Grammar.from_choices(["red", "read"]).compile(tokenizer)
    scheduler = Scheduler(VOCAB, tokenizer)
    for i in range(6):
        scheduler.add(SamplingParams(seed=i), grammar=dear if i < 5 else cheap)
    assert scheduler.step(rows_of(scheduler)).token_ids[5] >= 0


def test_forced_tokens_that_take_too_long_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(SamplingParams(), grammar=Grammar.from_regex("qxq").compile(TOKENIZER))
    monkeypatch.setattr("engine_sampler.requests.constraint.REQUEST_WORK", 0)
    assert scheduler.forced_tokens(0) == []
    monkeypatch.undo()
    assert scheduler.forced_tokens(0) == [*b"qxq"]


def test_steps_can_take_as_long_as_their_grammars_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "STEP_WORK", 0)
    scheduler = Scheduler(VOCAB, TOKENIZER, postpone=False)
    scheduler.add(SamplingParams(), grammar=Grammar.from_regex("[ab]{5}").compile(TOKENIZER))
    assert scheduler.step(rows_of(scheduler)).token_ids[0] >= 0


def test_a_token_drawn_without_a_scheduler_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "STEP_WORK", 0)
    drawn = sample(np.zeros((1, VOCAB), np.float32), SamplingParams(regex="[ab]{5}"), tokenizer=TOKENIZER)
    assert drawn.token_ids[0] >= 0


def test_a_postponed_request_that_is_given_a_wrong_token_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "STEP_WORK", 0)
    tokenizer = fresh_tokenizer()
    scheduler = Scheduler(VOCAB, tokenizer)
    request = scheduler.add(SamplingParams(), grammar=Grammar.from_regex("[ab]{5}").compile(tokenizer))
    assert scheduler.step(rows_of(scheduler)).token_ids.tolist() == [-1]
    scheduler.accept(request, [ord("z")])
    monkeypatch.undo()
    assert scheduler.step(np.zeros((1, VOCAB), np.float32), [request]).skipped == [0]
    record = scheduler.record(request)
    assert (record.finish_reason, record.token_ids) == ("error", [])
    assert record.error == f"the grammar refuses token {ord('z')}"


def test_beams_that_wait_give_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = fresh_tokenizer()
    scheduler = Scheduler(VOCAB, tokenizer)
    params = SamplingParams(use_beam_search=True, beam_width=2, max_tokens=4)
    scheduler.add_group(params, grammar=Grammar.from_regex("[ab]{6}").compile(tokenizer))
    rows = np.random.default_rng(3).normal(0, 3, (2, VOCAB)).astype(np.float32)
    assert scheduler.step(rows).text == ["", ""]
    monkeypatch.setattr(budget_module, "STEP_WORK", 0)
    assert scheduler.step(rows).text == ["", ""]


# --- tokens chosen elsewhere ----------------------------------------------------------------------


def narrow(monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    """Let steps do `budget` of work, and one turn half of it."""
    monkeypatch.setattr(budget_module, "STEP_WORK", budget)
    monkeypatch.setattr(budget_module, "REQUEST_WORK", budget // 2)


DEAR = r"(\w|\d|[^a-z]){1,60}"
GIVEN = [*b"abcdefgh"]


def given_tokens(scheduler: Scheduler, tokenizer: Tokenizer) -> tuple[Any, int]:
    """A request that is given tokens, and is stepped until it has them and three more; and its rows that
    waited."""
    grammar = Grammar.from_regex(DEAR).compile(tokenizer)
    request = scheduler.add(SamplingParams(seed=3, max_tokens=11, logprobs=1), grammar=grammar)
    scheduler.accept(request, GIVEN, [-0.5] * len(GIVEN))
    waited = 0
    while scheduler.request_ids:
        rows = np.random.default_rng(len(scheduler.record(request).token_ids)).normal(0, 3, (1, VOCAB))
        waited += scheduler.step(rows.astype(np.float32)).token_ids[0] < 0
        assert waited < 3000
    return scheduler.record(request), waited


@pytest.mark.parametrize("budget", [2_000, 10_000])
def test_tokens_chosen_elsewhere_join_as_far_as_the_work_of_a_step_goes(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = fresh_tokenizer()
    expected, _ = given_tokens(Scheduler(VOCAB, tokenizer), tokenizer)
    tokenizer = fresh_tokenizer()
    narrow(monkeypatch, budget)
    found, waited = given_tokens(Scheduler(VOCAB, tokenizer), tokenizer)
    assert expected.token_ids[: len(GIVEN)] == GIVEN
    assert found == expected
    assert waited > 0


def with_backlog(monkeypatch: pytest.MonkeyPatch) -> tuple[Scheduler, Any]:
    """A request whose grammar has not accepted `GIVEN` yet, in a scheduler without work; without the patch
    it goes on."""
    tokenizer = fresh_tokenizer()
    monkeypatch.setattr(budget_module, "STEP_WORK", 0)
    scheduler = Scheduler(VOCAB, tokenizer)
    grammar = Grammar.from_regex("[a-h]{8}").compile(tokenizer)
    request = scheduler.add(SamplingParams(seed=3), grammar=grammar)
    scheduler.accept(request, GIVEN)
    assert scheduler.record(request).token_ids == []
    return scheduler, request


def test_nothing_is_forced_drawn_or_processed_before_tokens_chosen_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler, request = with_backlog(monkeypatch)
    flat = np.zeros((1, VOCAB), np.float32)
    assert scheduler.forced_tokens(request) == []
    assert np.isnan(scheduler.process(flat)).all()
    assert scheduler.step(flat).token_ids.tolist() == [-1]
    monkeypatch.undo()
    scheduler.prepare()
    assert scheduler.record(request).token_ids == GIVEN


def test_tokens_that_wait_are_rolled_back_first(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, request = with_backlog(monkeypatch)
    with pytest.raises(ValueError, match="has 8 output tokens"):
        scheduler.rollback(request, 9)
    scheduler.rollback(request, 3)
    monkeypatch.undo()
    scheduler.prepare()
    assert scheduler.record(request).token_ids == GIVEN[:5]
    scheduler.rollback(request, 5)
    assert scheduler.record(request).token_ids == []


def test_forks_and_suspended_requests_keep_the_tokens_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, request = with_backlog(monkeypatch)
    child = scheduler.fork(request)
    scheduler.suspend(request)
    monkeypatch.undo()
    scheduler.prepare()
    assert scheduler.record(child).token_ids == GIVEN
    assert scheduler.record(request).token_ids == []
    scheduler.resume(request)
    scheduler.prepare()
    assert scheduler.record(request).token_ids == GIVEN


def test_tokens_behind_one_that_ends_the_request_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, request = with_backlog(monkeypatch)
    scheduler.accept(request, [EOS, 97])
    monkeypatch.undo()
    assert scheduler.step(np.zeros((1, VOCAB), np.float32), [request]).skipped == [0]
    assert scheduler.record(request).token_ids == [*GIVEN, EOS]
    assert scheduler.request_ids == []


# --- beams, biases, processing --------------------------------------------------------------------


def found_by_beams(budget: int | None, monkeypatch: pytest.MonkeyPatch, **bias: Any) -> tuple[list[Any], int]:
    tokenizer = fresh_tokenizer()
    if budget is not None:
        narrow(monkeypatch, budget)
    scheduler = Scheduler(VOCAB, tokenizer)
    params = SamplingParams(use_beam_search=True, beam_width=3, max_tokens=6, **bias)
    grammar = None if bias else Grammar.from_regex(DEAR).compile(tokenizer)
    ids = scheduler.add_group(params, grammar=grammar)
    waited = 0
    for _ in range(3000):
        if not scheduler.request_ids:
            break
        have = len(scheduler.record(ids[0]).token_ids)
        rows = np.random.default_rng(have).normal(0, 3, (3, VOCAB)).astype(np.float32)
        waited += (scheduler.step(rows).token_ids == -1).all()
    monkeypatch.undo()
    return [scheduler.record(request_id).token_ids for request_id in ids], int(waited)


@pytest.mark.parametrize("budget", [2_000, 10_000])
def test_the_texts_of_a_beam_search_wait_for_their_accepts(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, last = found_by_beams(None, monkeypatch)
    found, waited = found_by_beams(budget, monkeypatch)
    assert found == expected
    assert waited > last


def test_a_beam_search_is_left_as_it_was_by_an_accept_that_does_not_finish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = fresh_tokenizer()
    scheduler = Scheduler(VOCAB, tokenizer)
    params = SamplingParams(use_beam_search=True, beam_width=2, max_tokens=4)
    ids = scheduler.add_group(params, grammar=Grammar.from_regex("[ab]{6}").compile(tokenizer))
    rows = np.random.default_rng(3).normal(0, 3, (2, VOCAB)).astype(np.float32)
    monkeypatch.setattr(Budget, "start_accepts", lambda self: monkeypatch.setattr(Budget, "turn", no_turn))
    before = [scheduler.record(i) for i in ids]
    assert scheduler.step(rows).token_ids.tolist() == [-1, -1]
    assert [scheduler.record(i) for i in ids] == before
    monkeypatch.undo()
    assert (scheduler.step(rows).token_ids >= 0).all()


def no_turn(budget: Budget, share: Any) -> Work:
    return Work(0, 0)


def biased(
    budget: int | None, monkeypatch: pytest.MonkeyPatch, backend: str, grammar: dict[str, Any]
) -> tuple[Any, int]:
    tokenizer = fresh_tokenizer()
    if budget is not None:
        narrow(monkeypatch, budget)
    scheduler = Scheduler(VOCAB, tokenizer, backend=backend)
    params = SamplingParams(seed=4, max_tokens=8, grammar_bias=5.0, logprobs=1, **grammar)
    request = scheduler.add(params)
    plain = scheduler.add(SamplingParams(seed=5))
    waited = 0
    while request in scheduler.request_ids:
        rows = np.random.default_rng(len(scheduler.record(request).token_ids)).normal(0, 3, (2, VOCAB))
        result = scheduler.step(rows.astype(np.float32), [request, plain])
        assert result.token_ids[1] >= 0
        waited += result.token_ids[0] < 0
        assert waited < 3000
    monkeypatch.undo()
    return scheduler.record(request), waited


UNIQUE_KEYS = {"json_schema": {"type": "object", "minProperties": 2}}


@pytest.mark.parametrize(
    ("budget", "backend", "grammar"),
    [
        (2_000, "numpy", {"regex": DEAR}),
        (10_000, "native", {"regex": DEAR}),
        (500, "native", UNIQUE_KEYS),
    ],
)
def test_a_bias_by_a_grammar_waits_for_the_grammar(
    budget: int, backend: str, grammar: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, none = biased(None, monkeypatch, backend, grammar)
    found, waited = biased(budget, monkeypatch, backend, grammar)
    assert found == expected
    assert none == 0
    assert waited > 0


def test_a_bias_by_a_grammar_waits_in_a_beam_search(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, none = found_by_beams(None, monkeypatch, regex=DEAR, grammar_bias=5.0)
    found, waited = found_by_beams(2_000, monkeypatch, regex=DEAR, grammar_bias=5.0)
    assert found == expected
    assert waited > none


@pytest.mark.parametrize("bias", [None, 5.0])
def test_processing_gives_no_row_until_the_grammar_has_its_mask(
    bias: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = fresh_tokenizer()
    flat = np.zeros((1, VOCAB), np.float32)
    params = SamplingParams(regex=DEAR, grammar_bias=bias)
    scheduler = Scheduler(VOCAB, tokenizer)
    scheduler.add(params)
    expected = scheduler.process(flat)
    tokenizer = fresh_tokenizer()
    scheduler = Scheduler(VOCAB, tokenizer)
    scheduler.add(params)
    narrow(monkeypatch, 2_000)
    attempts = 0
    while np.isnan(found := scheduler.process(flat)).all():
        attempts += 1
        assert attempts < 3000
    assert attempts > 0
    assert found.tobytes() == expected.tobytes()
