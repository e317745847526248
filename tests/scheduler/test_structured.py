"""Structured output in a scheduler: drafts, jump-forward, rollback, forks, siblings, faults, logprobs."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from engine_sampler import Record, RequestError, SamplingParams, Scheduler
from engine_sampler.grammar import Grammar, Limits, prepare

from ..bytewise import (
    EOS,
    TOKENIZER,
    VOCAB,
    allowed,
    every_backend,
    every_engine,
    fresh_tokenizer,
    generate,
    model_row,
    model_rows,
    needs_native_engine,
    run_to_end,
    tokenizer_for,
)
from ..engines import ToyMatcher

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "done": {"type": "boolean"}},
    "required": ["name", "done"],
    "additionalProperties": False,
}
CONFIGURATIONS: list[dict[str, Any]] = [
    {"json_schema": SCHEMA},
    {"regex": r"(?:red|ab+)(?:, (?:true|\d\d?))*", "temperature": 1.4},
    {"choice": ["true", "tree", "abab"], "top_p": 0.9, "logprobs": 2},
    {"grammar": 'start: "ab" start? "}" | "é"', "repetition_penalty": 1.2},
    {"json_object": True, "max_tokens": 40, "mirostat": 2},
    {"temperature": 0.9, "max_tokens": 20},
]
"""Requests with and without a grammar."""


def all_requests(**keywords: Any) -> Scheduler:
    """A scheduler with a request for each of `CONFIGURATIONS`."""
    scheduler = Scheduler(VOCAB, keywords.pop("tokenizer", TOKENIZER), **keywords)
    for seed, given in enumerate(CONFIGURATIONS):
        scheduler.add(SamplingParams(**given, seed=seed))
    return scheduler


def records(scheduler: Scheduler) -> list[Record]:
    return [scheduler.record(request_id) for request_id in range(len(CONFIGURATIONS))]


@pytest.fixture(scope="module")
def plain() -> list[Record]:
    """The records of all requests in a run step by step."""
    scheduler = all_requests()
    run_to_end(scheduler)
    assert {record.error for record in records(scheduler)} == {None}
    return records(scheduler)


def stripped(record: Record) -> tuple[Any, ...]:
    return record.token_ids, record.text, record.finish_reason, record.stop_reason, record.error


# --- drafts and jump-forward ---------------------------------------------------------------------


@every_backend
@every_engine
@pytest.mark.parametrize("right", [0.5, 1.0])
def test_drafts_give_the_tokens_of_a_run_without_drafts(
    plain: list[Record], right: float, engine: str, backend: str
) -> None:
    random = np.random.default_rng(4)
    scheduler = all_requests(tokenizer=tokenizer_for(engine), backend=backend)
    steps = 0
    while scheduler.request_ids:
        drafts = []
        for request_id in scheduler.request_ids:
            have = len(scheduler.record(request_id).token_ids)
            ahead = plain[request_id].token_ids[have : have + int(random.integers(5))]
            drafts.append([t if random.random() < right else int(random.integers(VOCAB)) for t in ahead])
        scheduler.step(model_rows(scheduler, drafts), None, drafts)
        steps += 1
    assert records(scheduler) == plain
    assert steps < max(len(record.token_ids) for record in plain)


@every_engine
def test_jump_forward_gives_the_text_of_a_run_without_it(engine: str) -> None:
    """If every forced text is a single token, the tokens are the same too."""
    tokenizer = tokenizer_for(engine)
    for pattern in ("(?:red|x)true(?:é|y)<tool>", "\\d(?:true){2}[xy]\\?red"):
        params = SamplingParams(regex=pattern, seed=11)
        (expected,) = generate(params, tokenizer)
        scheduler = Scheduler(VOCAB, tokenizer)
        scheduler.add(params)
        steps = jumped = 0
        while scheduler.request_ids:
            if forced := scheduler.forced_tokens(0):
                scheduler.accept(0, forced)
                jumped += len(forced)
            if scheduler.request_ids:
                scheduler.step(model_rows(scheduler))
                steps += 1
        record = scheduler.record(0)
        assert (jumped + steps, record.finish_reason) == (len(record.token_ids), "stop")
        assert jumped > 1
        assert re.fullmatch(pattern, str(record.text))
        assert record.text == expected.text or len(record.token_ids) < len(expected.token_ids)


def test_forced_tokens_are_those_that_steps_would_draw() -> None:
    """With one byte per token, a forced text has only one spelling."""
    params = SamplingParams(regex="[xyz]q{5}[uvw]q{3}", seed=2, temperature=1.5)
    (expected,) = generate(params)
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(params)
    steps = 0
    while scheduler.request_ids:
        scheduler.accept(0, scheduler.forced_tokens(0))
        if scheduler.request_ids:
            scheduler.step(model_rows(scheduler))
            steps += 1
    assert stripped(scheduler.record(0)) == stripped(expected)
    assert steps <= 3


def test_a_request_without_a_grammar_has_no_forced_tokens() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(SamplingParams(), request_id="free")
    scheduler.add(SamplingParams(), request_id="toy", grammar=ToyMatcher({"start": {1: "end"}}))
    scheduler.add(SamplingParams(regex="[ab]"), request_id="choice")
    assert [scheduler.forced_tokens(request_id) for request_id in scheduler.request_ids] == [[], [], []]
    with pytest.raises(RequestError, match="request 'unknown' is unknown"):
        scheduler.forced_tokens("unknown")


def test_a_grammar_that_fails_at_forced_tokens_ends_its_request_with_the_next_step() -> None:
    class Failing(ToyMatcher):
        def forced_tokens(self) -> list[int]:
            raise RuntimeError("lost its place")

    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(SamplingParams(), request_id="failing", grammar=Failing({"start": {1: "start"}}))
    scheduler.add(SamplingParams(regex="qx"), request_id="other")
    assert [scheduler.forced_tokens(request_id) for request_id in scheduler.request_ids] == [[], [*b"qx"]]
    result = scheduler.step(model_rows(scheduler))
    assert result.errors == ["the grammar failed: RuntimeError: lost its place", None]
    assert result.token_ids.tolist() == [-1, ord("q")]
    assert scheduler.request_ids == ["other"]


def test_reading_forced_tokens_changes_nothing() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(SamplingParams(regex="qqq[ab]", seed=1))
    assert scheduler.forced_tokens(0) == scheduler.forced_tokens(0) == [ord("q")] * 3
    run_to_end(scheduler)
    assert re.fullmatch("qqq[ab]", str(scheduler.record(0).text))


# --- rollback, forks, siblings -------------------------------------------------------------------


@every_engine
@every_backend
def test_a_rollback_leads_to_the_same_text_again(plain: list[Record], engine: str, backend: str) -> None:
    random = np.random.default_rng(9)
    scheduler = all_requests(tokenizer=tokenizer_for(engine), backend=backend)
    for number in range(400):
        if not scheduler.request_ids:
            break
        scheduler.step(model_rows(scheduler))
        for request_id in scheduler.request_ids if number % 3 == 0 else ():
            if "mirostat" not in CONFIGURATIONS[request_id]:
                have = len(scheduler.record(request_id).token_ids)
                scheduler.rollback(request_id, int(random.integers(min(have, 3) + 1)))
    assert [r.token_ids for r in records(scheduler)] == [r.token_ids for r in plain]


@every_engine
def test_a_fork_continues_under_its_own_copy_of_the_grammar(engine: str) -> None:
    scheduler = Scheduler(VOCAB, tokenizer_for(engine))
    scheduler.add(SamplingParams(regex="x[a-f]{9}y", seed=1, temperature=3), request_id="parent")
    for _ in range(3):
        scheduler.step(model_rows(scheduler))
    scheduler.prepare()
    for seed in range(4):
        scheduler.fork("parent", new_request_id=seed, seed=seed + 5)
    scheduler.fork("parent", new_request_id="twin")
    run_to_end(scheduler)
    texts = [str(scheduler.record(name).text) for name in ("parent", "twin", 0, 1, 2, 3)]
    assert all(re.fullmatch("x[a-f]{9}y", text) for text in texts)
    assert texts[0] == texts[1]
    assert len(set(texts)) > 2


@every_engine
def test_siblings_share_a_grammar_and_continue_independently(engine: str) -> None:
    scheduler = Scheduler(VOCAB, tokenizer_for(engine))
    group = scheduler.add_group(SamplingParams(json_schema=SCHEMA, n=2, best_of=5, seed=3))
    run_to_end(scheduler)
    texts = [str(scheduler.record(request_id).text) for request_id in group]
    assert all(set(json.loads(text)) == {"name", "done"} for text in texts)
    assert len(set(texts)) > 1
    assert len(scheduler.best(group)) == 2


def test_an_output_to_resume_from_continues_as_if_drawn_here(plain: list[Record]) -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    for seed, (given, record) in enumerate(zip(CONFIGURATIONS, plain, strict=True)):
        if "mirostat" not in given:
            params = SamplingParams(**given, seed=seed)
            scheduler.add(params, request_id=seed, output_token_ids=record.token_ids[:-1][: 1 + seed])
    ids = scheduler.request_ids
    run_to_end(scheduler)
    assert [stripped(scheduler.record(i)) for i in ids] == [stripped(plain[i]) for i in ids]


@every_backend
def test_other_requests_and_order_do_not_matter(plain: list[Record], backend: str) -> None:
    for seed, (given, record) in enumerate(zip(CONFIGURATIONS, plain, strict=True)):
        (alone,) = generate(SamplingParams(**given, seed=seed), backend=backend)
        assert stripped(alone) == stripped(record)


# --- faults --------------------------------------------------------------------------------------


@every_backend
@every_engine
def test_a_grammar_whose_tokens_are_all_removed_ends_its_request_alone(engine: str, backend: str) -> None:
    scheduler = Scheduler(VOCAB, tokenizer_for(engine), backend=backend)
    for name in ("dead", "other"):
        scheduler.add(SamplingParams(regex="[ab]c", seed=1), request_id=name)
    rows = np.zeros((2, VOCAB), np.float32)
    rows[0, allowed(Grammar.from_regex("[ab]c").compile(TOKENIZER).matcher())] = -np.inf
    result = scheduler.step(rows)
    assert result.token_ids[0] == -1
    assert result.finish_reasons == ["error", None]
    assert result.errors == ["the grammar leaves no token", None]
    run_to_end(scheduler)
    assert str(scheduler.record("other").text) in ("ac", "bc")
    assert scheduler.record("dead").token_ids == []


def test_a_sampler_that_removes_what_the_grammar_leaves_is_named() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(SamplingParams(regex="[ab]", allowed_token_ids=[1, 2]))
    result = scheduler.step(model_rows(scheduler))
    assert result.errors == ["allowed_token_ids leaves no token"]


@needs_native_engine
@every_backend
def test_a_limit_that_a_step_reaches_ends_its_request_alone(plain: list[Record], backend: str) -> None:
    tokenizer = fresh_tokenizer()
    prepare(tokenizer)
    limited = Grammar.from_regex("[^a-y][^b]*|(?s:.*)x").compile(tokenizer, limits=Limits(work=2_000))
    scheduler = all_requests(tokenizer=tokenizer, backend=backend)
    scheduler.add(SamplingParams(), request_id="limited", grammar=limited)
    result = scheduler.step(model_rows(scheduler))
    assert result.finish_reasons[:-1] == [None] * len(CONFIGURATIONS)
    assert str(result.errors[-1]).startswith("the grammar failed: GrammarLimitError: the limit of work")
    run_to_end(scheduler)
    assert records(scheduler) == plain


def test_a_token_chosen_elsewhere_that_leaves_the_language_ends_the_request() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(SamplingParams(regex="abc"))
    scheduler.accept(0, [ord("a"), ord("c"), ord("b")])
    record = scheduler.record(0)
    assert (record.token_ids, record.error) == ([ord("a")], f"the grammar refuses token {ord('c')}")


# --- processed rows and logprobs -----------------------------------------------------------------


@every_backend
def test_process_keeps_what_the_grammar_allows(backend: str) -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER, backend=backend)
    scheduler.add(SamplingParams(regex="ab[xy]*", temperature=0.5, logit_bias={ord("x"): 1}))
    scheduler.accept(0, [*b"ab"])
    row = model_row([])
    left = scheduler.process(row[None])[0]
    assert np.flatnonzero(left > -np.inf).tolist() == [ord("x"), ord("y"), EOS]
    assert left[ord("y")] == row[ord("y")] / np.float32(0.5)
    assert left[ord("x")] == (row[ord("x")] + np.float32(1)) / np.float32(0.5)


@every_backend
def test_logprobs_show_the_effect_of_the_mask(backend: str) -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER, backend=backend)
    modes = ("raw", "penalized", "processed")
    scheduler.add(SamplingParams(regex="[ab]", logprobs=5, logprobs_mode=modes, seed=1, temperature=2.0))
    row = model_row([])
    result = scheduler.step(row[None])
    a, b = (row[[*b"ab"]].astype(np.float64)).tolist()
    expected = {
        "penalized": np.array([a, b]) - np.logaddexp(a, b),
        "processed": np.array([a, b]) / 2 - np.logaddexp(a / 2, b / 2),
    }
    chosen = int(result.token_ids[0])
    assert result.logprobs is not None
    for mode, values in expected.items():
        given = result.logprobs.by_mode[mode]
        assert given.logprobs[0, 0] == pytest.approx(values[chosen - ord("a")], abs=1e-5)
    raw = row[chosen] - np.log(np.exp(row.astype(np.float64)).sum())
    assert result.logprobs.by_mode["raw"].logprobs[0, 0] == pytest.approx(raw, abs=1e-5)
