"""Drafts save forward passes, and never change a token; some backends draw their rows before it is known that
they count."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from engine_sampler import BackendError, Grammar, ParameterError, RequestError, SamplingParams, StepResult
from engine_sampler.backends.library import LibraryBackend
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.base.packaged import library_path
from engine_sampler.contract import UnfinishedError
from engine_sampler.requests.constraint import Constraint

from ..engines import (
    CONFIGURATIONS,
    EOS,
    TOKENIZER,
    VOCAB,
    alone,
    make_scheduler,
    model_step,
    outcome,
    snapshot,
)

PROMPT = [1, 2, 1]
needs_native = pytest.mark.skipif(library_path() is None, reason="there are no kernels in C")


def params_of(configuration: Any, **more: Any) -> SamplingParams:
    return SamplingParams(**{**configuration, "seed": 11, "max_tokens": 14, **more})


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("quality", ["good", "bad", "mixed"])
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_run_with_drafts_equals_the_run_without(configuration: Any, quality: str) -> None:
    chance = random.Random(quality)
    params = params_of(configuration)
    expected = alone(params, PROMPT)
    scheduler = make_scheduler()
    for name in "ab":
        scheduler.add(params, PROMPT, request_id=name)
    steps, text = 0, {"a": "", "b": ""}
    while live := scheduler.request_ids:
        drafts, due = [], []
        for name in live:
            rest = expected.token_ids[len(scheduler.record(name).token_ids) :]
            length = chance.randint(0, 4)
            guess = (rest + [0] * 4)[:length]
            if quality == "bad":
                guess = [(t + 1) % VOCAB for t in guess]
            elif quality == "mixed":
                guess = [t if chance.random() < 0.7 else chance.randrange(VOCAB) for t in guess]
            drafts.append(guess)
            due.append(rest[: length + 1])
        result = model_step(scheduler, live, drafts)
        if quality == "good":
            assert [result.tokens(i) for i in range(len(live))] == due
        steps += 1
        for name, delta in zip(live, result.text, strict=True):
            text[name] += delta or ""
    for name in "ab":
        assert outcome(scheduler.record(name)) == outcome(expected)
        assert text[name] == expected.text
    if quality == "good":
        assert steps < len(expected.token_ids) or len(expected.token_ids) == 1
    if quality == "bad":
        assert steps == len(expected.token_ids)


def test_nothing_is_emitted_after_a_mismatch() -> None:
    scheduler = make_scheduler()
    params = SamplingParams(temperature=0)
    expected = alone(params.replace(max_tokens=3)).token_ids
    scheduler.add(params)
    wrong = (expected[1] + 1) % VOCAB
    result = model_step(scheduler, None, [[expected[0], wrong, expected[2]]])
    assert result.token_ids.tolist() == [*expected[:2], -1, -1]
    assert result.tokens(0) == expected[:2] == scheduler.record(0).token_ids


@pytest.mark.parametrize(
    ("stop", "reason"), [({"max_tokens": 2}, "max_tokens"), ({"stop_token_ids": [7]}, 7), ({}, None)]
)
def test_nothing_is_emitted_after_a_stop(stop: Any, reason: Any) -> None:
    scheduler = make_scheduler()
    second = 7 if stop else EOS
    scheduler.add(SamplingParams(temperature=0, **stop))
    logits = np.zeros((4, VOCAB), np.float32)
    logits[[0, 1, 2, 3], [3, second, 4, 5]] = 50
    result = scheduler.step(logits, None, [[3, second, 4]])
    assert result.token_ids.tolist() == [3, second, -1, -1]
    assert result.stop_reasons == [reason]
    assert scheduler.record(0).token_ids == [3, second]


def test_requests_with_and_without_drafts_share_a_step() -> None:
    scheduler = make_scheduler()
    params = SamplingParams(temperature=0)
    expected = alone(params.replace(max_tokens=3)).token_ids
    for name in "abc":
        scheduler.add(params, request_id=name)
    result = model_step(scheduler, ["a", "b", "c"], [[], expected[:2], [VOCAB - 1 - expected[0]]])
    assert result.first_rows.tolist() == [0, 1, 4]
    assert [result.tokens(i) for i in range(3)] == [expected[:1], expected, expected[:1]]


def test_drafts_may_be_given_by_request_id() -> None:
    scheduler = make_scheduler()
    expected = alone(SamplingParams(temperature=0, max_tokens=2)).token_ids
    for name in "ab":
        scheduler.add(SamplingParams(temperature=0), request_id=name)
    logits = np.zeros((3, VOCAB), np.float32)
    logits[[0, 1, 2], [expected[0], expected[0], expected[1]]] = 50
    result = scheduler.step(logits, draft_token_ids={"b": [expected[0]]})
    assert [result.tokens(0), result.tokens(1)] == [expected[:1], expected]


@pytest.mark.parametrize(
    ("drafts", "error", "words"),
    [
        ([[VOCAB]], ParameterError, f"draft_token_ids names token id {VOCAB}"),
        ([[-1]], ParameterError, "draft_token_ids names token id -1"),
        ([[1.5]], ParameterError, "a list of token ids"),
        ([[], []], RequestError, "2 entries for 1 requests"),
        ({"unknown": [1]}, RequestError, "'unknown', which has no rows"),
        ([[1]], ValueError, "logits have 1 rows; the requests and drafts need 2"),
    ],
)
def test_wrong_drafts_are_refused_before_anything_changes(drafts: Any, error: Any, words: str) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(mirostat=2, seed=1))
    model_step(scheduler)
    before = snapshot(scheduler)
    with pytest.raises(error, match=words):
        scheduler.step(np.zeros((1, VOCAB), np.float32), None, drafts)
    assert snapshot(scheduler) == before


class BreaksAt(NumpyBackend):
    """Breaks its contract in one of its runs, after it has drawn tokens."""

    name = "breaks"
    broken_run = 0

    def run(self, batch: Any) -> None:
        super().run(batch)
        self.broken_run -= 1
        if self.broken_run == 0:
            raise BackendError("broken")


@pytest.mark.parametrize("logprobs", [None, 2])
def test_a_backend_that_breaks_on_drafts_loses_no_token_that_was_drawn(logprobs: int | None) -> None:
    backend = BreaksAt()
    scheduler = make_scheduler(backend=backend)
    scheduler.add(SamplingParams(temperature=0, logprobs=logprobs))
    logits = np.zeros((3, VOCAB), np.float32)
    logits[range(3), [4, 5, 6]] = 9
    backend.broken_run = 2
    result = scheduler.step(logits, None, [[4, 5]])
    assert result.token_ids.tolist() == [4, -1, -1]
    assert scheduler.record(0).token_ids == [4]
    if logprobs:
        assert result.logprobs.row(0).token_ids[0] == 4
        assert (result.logprobs.token_ids[1:] == -1).all()
    backend.broken_run = 1
    with pytest.raises(BackendError, match="broken"):
        scheduler.step(logits, None, [[5, 6]])
    assert scheduler.record(0).token_ids == [4]


class DrawsAhead(NumpyBackend):
    """Draws the rows of drafts together wherever nothing is noted that is drawn, and counts its runs."""

    name = "ahead"
    hosts_the_rest = True
    runs = 0

    def follows_drafts(self, plan: Any, tokens: int) -> bool:
        return plan.selector.name in {"dist", "greedy"}

    def run(self, batch: Any) -> None:
        self.runs += 1
        super().run(batch)


MORE: tuple[dict[str, Any], ...] = (
    {"regex": "[ab]{2,9}|(de)+", "logprobs": 2},
    {"regex": "(a|b| c)*", "repetition_penalty": 1.5, "stop": ["ab"], "logprobs": 3},
    {"regex": "(a|b| c)*", "logprobs_mode": "processed", "logprobs": 3, "xtc_probability": 0.5},
    {"presence_penalty": 1.0, "penalty_last_n": 3, "logprobs_mode": "penalized", "logprobs": 1},
    {"thinking": {"start": [[5]], "end": [[6]]}, "thinking_token_budget": 2, "answer": {"temperature": 2.0}},
    {"phases": [{"tokens": 2, "params": {"logit_bias": {0: 3.0}}}, {"tokens": 3, "then": 0}]},
)  # fmt: skip


def seen(result: StepResult) -> list[Any]:
    """All that a step tells."""
    logprobs = [] if result.logprobs is None else [result.logprobs, *(result.logprobs.modes or {}).values()]
    tables = [
        (t.starts.tobytes(), t.entry_token_ids.tobytes(), t.entry_logprobs.tobytes(), t.ranks.tobytes())
        for t in logprobs
    ]
    ends = result.finish_reasons, result.stop_reasons, result.errors, result.phase_tokens
    return [result.token_ids.tolist(), result.text, *ends, tables]


def guesses(scheduler: Any, live: list[Any], chance: random.Random) -> list[list[int]]:
    """Guesses about each request, mostly right."""
    drafts: list[list[int]] = []
    for name in live:
        draft: list[int] = []
        copy, most = scheduler.fork(name), chance.randint(0, 4)
        while len(draft) < most:
            is_live = copy in scheduler.request_ids
            token = int(model_step(scheduler, [copy]).token_ids[0]) if is_live else -1
            draft.append(token if token >= 0 and chance.random() < 0.8 else chance.randrange(VOCAB))
        scheduler.remove(copy)
        drafts.append(draft)
    return drafts


@pytest.mark.parametrize("first", range(0, len(CONFIGURATIONS) + len(MORE), 4))
def test_rows_that_are_drawn_ahead_are_those_of_one_after_the_other(first: int) -> None:
    chance = random.Random(first)
    ahead, plain = make_scheduler(backend=DrawsAhead()), make_scheduler()
    for seed, given in enumerate((*CONFIGURATIONS, *MORE)[first : first + 4]):
        for scheduler in (ahead, plain):
            scheduler.add(params_of(given, seed=seed), PROMPT, request_id=seed)
    while live := plain.request_ids:
        drafts = guesses(plain, live, chance)
        found, right = (model_step(scheduler, live, drafts) for scheduler in (ahead, plain))
        assert seen(found) == seen(right)
        assert ahead.request_ids == plain.request_ids
        assert all(ahead.record(name) == plain.record(name) for name in live)
        if ahead.request_ids and chance.random() < 0.3:
            name = chance.choice(ahead.request_ids)
            for scheduler in (ahead, plain):
                scheduler.suspend(name)
                scheduler.resume(name)
                scheduler.rollback(name, min(1, len(scheduler.record(name).token_ids)))


ONE_RUN: tuple[dict[str, Any], ...] = (
    {"repetition_penalty": 1.3, "frequency_penalty": 0.5},
    {"regex": "[a-e]{9,}"},
    {"logprobs": 2},
    {"xtc_probability": 0.5},
    {"bad_words": [[1, 2]], "no_repeat_ngram_size": 2, "dry_multiplier": 1.0, "min_tokens": 3},
)


@pytest.mark.parametrize("given", ONE_RUN, ids=str)
def test_one_run_of_the_backend_draws_all_rows(given: Any) -> None:
    backend = DrawsAhead()
    scheduler = make_scheduler(backend=backend)
    scheduler.add(SamplingParams(seed=1, **given), PROMPT)
    copy = scheduler.fork(0)
    right = [int(model_step(scheduler, [copy]).token_ids[0]) for _ in range(8)]
    before = backend.runs
    for step in (0, 4):
        here = right[step : step + 4]
        assert model_step(scheduler, [0], [here[:3]]).token_ids.tolist() == here
    assert backend.runs == before + 2


def test_a_request_whose_rows_wait_for_one_another_does_not_keep_others_waiting() -> None:
    backend = DrawsAhead()
    scheduler = make_scheduler(backend=backend)
    scheduler.add(SamplingParams(seed=1, frequency_penalty=0.5), PROMPT)
    scheduler.add(SamplingParams(seed=1, mirostat=2), PROMPT)
    model_step(scheduler, None, [[1, 2, 3], [4]])
    assert backend.runs <= 2
    before = backend.runs
    model_step(scheduler, None, [[1, 2, 3], []])
    assert backend.runs == before + 1


class TakesLong:
    """Stands before a matcher of our own, whose copies cannot go on."""

    def __init__(self, matcher: Any, is_copy: bool = False) -> None:
        self._matcher, self._is_copy = matcher, is_copy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matcher, name)

    def fork(self) -> TakesLong:
        return TakesLong(self._matcher.fork(), is_copy=True)

    def accept(self, token_id: int, work: Any = None) -> bool:
        if self._is_copy:
            raise MemoryError
        return bool(self._matcher.accept(token_id, work))


@pytest.mark.parametrize("seed", range(4))
def test_rows_whose_masks_are_not_known_before_are_drawn_when_they_are(seed: int) -> None:
    backend = DrawsAhead()
    scheduler, plain = make_scheduler(backend=backend), make_scheduler()
    grammar = Grammar.from_regex("[ab]{9,}").compile(TOKENIZER)
    params = SamplingParams(seed=seed, logprobs=1)
    scheduler.add(params, PROMPT, grammar=TakesLong(grammar.matcher()))
    plain.add(params, PROMPT, grammar=grammar.matcher())
    copy = plain.fork(0)
    draft = [int(model_step(plain, [copy]).token_ids[0]) for _ in range(4)]
    found, right = (model_step(s, [0], [draft]) for s in (scheduler, plain))
    assert seen(found) == seen(right)
    assert len(right.tokens(0)) == 5
    assert found.token_ids_on_device is None


PLAIN: tuple[dict[str, Any], ...] = (
    {"repetition_penalty": 1.3, "temperature": 0.8},
    {"regex": "[a-e]{9,}"},
    {"stop": ["zz"], "mirostat": 2},
    {"banned_strings": ["zz"]},
)


def with_truth(*given: dict[str, Any]) -> tuple[Any, list[list[int]]]:
    """A scheduler with these requests on the native backend, and what each of them is going to draw."""
    scheduler, truth = make_scheduler(backend="native"), []
    for seed, settings in enumerate(given):
        params = SamplingParams(seed=seed, max_tokens=8, **settings)
        scheduler.add(params, PROMPT)
        truth.append(alone(params, PROMPT).token_ids)
    return scheduler, truth


@needs_native
@pytest.mark.parametrize("given", [*([one] for one in PLAIN), PLAIN], ids=str)
def test_a_backend_repeats_itself_as_long_as_all_guesses_are_right(
    given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, truth = with_truth(*given)
    runs: list[Any] = []
    run = LibraryBackend.run
    monkeypatch.setattr(LibraryBackend, "run", lambda *of: (runs.append(of), run(*of)))
    result = model_step(scheduler, None, [tokens[:5] for tokens in truth])
    assert [result.tokens(i) for i in range(len(truth))] == [tokens[:6] for tokens in truth]
    assert len(runs) == 1


@needs_native
@pytest.mark.parametrize("fault", [UnfinishedError, MemoryError, None])
def test_a_grammar_that_does_not_take_its_token_leaves_the_others_where_they_are(
    fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, calls = Constraint.accept, itertools.count()
    for number in range(3, 9):
        scheduler, truth = with_truth(*[{"regex": "[a-e]{9,}"}] * 3)
        left = iter(range(number + 1))

        def faulty(self: Any, token_id: int, work: Any = None, left: Any = left) -> bool:
            if next(left, None) != number:  # noqa: B023
                return accept(self, token_id, work)
            next(calls)
            if fault is None:
                return False
            raise fault

        with monkeypatch.context() as patched:
            patched.setattr(Constraint, "accept", faulty)
            model_step(scheduler, None, [tokens[:4] for tokens in truth])
        while scheduler.request_ids:
            model_step(scheduler)
        assert [scheduler.record(i).token_ids for i in range(3)] == truth
    assert next(calls) == 6


@needs_native
def test_nothing_is_drawn_behind_the_end_of_one_of_several() -> None:
    scheduler = make_scheduler(backend="native")
    for stops in ([7], []):
        scheduler.add(SamplingParams(temperature=0, stop_token_ids=stops))
    rows = np.zeros((4, VOCAB), np.float32)
    rows[range(4), [3, 7, 4, 5]] = 50
    result = scheduler.step(np.concatenate([rows, rows]), None, [[3, 7, 4]] * 2)
    assert [result.tokens(i) for i in range(2)] == [[3, 7], [3, 7, 4, 5]]
