"""Grammars that begin with an answer wait for their turn, and for being compiled, as others do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.grammar import Grammar
from engine_sampler.grammar.service import GrammarCompiler
from engine_sampler.requests import budget as budget_module
from engine_sampler.requests.phases.opening import OpeningMatcher

from ...bytewise import TOKENIZER as BYTES
from ...bytewise import VOCAB as BYTE_VOCAB
from ...bytewise import fresh_tokenizer, needs_native_engine
from .world import END, START, TOKENIZER, VOCAB, Chat, ids, outcome

PATTERNS = [r"(\w|\d|[^a-z]){1,60}", "((a{0,9}){0,9}){0,9}", ".*a.{6}b", "red|[ab]{3,30}", "(a|b)*a(a|b){5}"]
MARKS = {"start": [[97, 98]], "end": [[101, 102]]}


def rows_of(scheduler: Scheduler) -> np.ndarray:
    """Logits that depend on the request and on how many tokens it has."""
    rows = []
    for request_id in scheduler.request_ids:
        have = len(scheduler.record(request_id).token_ids)
        rows.append(np.random.default_rng([int(request_id), have]).normal(0, 3, BYTE_VOCAB))
    return np.array(rows, np.float32)


def outcomes(budget: int | None, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], int]:
    """How requests that think first end, and how many rows waited."""
    if budget is not None:
        monkeypatch.setattr(budget_module, "STEP_WORK", budget)
        monkeypatch.setattr(budget_module, "REQUEST_WORK", budget // 2)
    tokenizer = fresh_tokenizer()
    scheduler = Scheduler(BYTE_VOCAB, tokenizer)
    for seed, pattern in enumerate(PATTERNS):
        grammar = Grammar.from_regex(pattern).compile(tokenizer)
        params = SamplingParams(seed=seed, max_tokens=16, thinking=MARKS, thinking_token_budget=seed + 1)
        scheduler.add(params, [97, 98] if seed % 2 else [97], grammar=grammar)
    names, waits = list(scheduler.request_ids), 0
    for _ in range(3000):
        if not scheduler.request_ids:
            break
        result = scheduler.step(rows_of(scheduler))
        for row, reason in zip(result.token_ids, result.finish_reasons, strict=True):
            waits += row < 0 and reason is None
    monkeypatch.undo()
    return [outcome(scheduler.record(name)) for name in names], waits


@needs_native_engine
def test_answers_that_wait_get_the_tokens_that_they_would_have_got(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = outcomes(None, monkeypatch)
    found, waits = outcomes(6_000, monkeypatch)
    assert found == expected
    assert waits > 0
    assert all(error is None for *_, error, _ in found)


def test_a_request_that_thinks_waits_for_its_grammar_to_be_compiled() -> None:
    params = SamplingParams(
        regex="[ab]{2}", thinking={"start": [[97, 98]], "end": [[101]]}, seed=1, max_tokens=30
    )
    with GrammarCompiler() as compiler:
        scheduler = Scheduler(BYTE_VOCAB, BYTES, grammar_compiler=compiler)
        waiting = scheduler.add(params, [97, 98])
        assert scheduler.record(waiting).phase_tokens == {"reasoning": 0}
        assert scheduler.wait_ready(60)
        assert scheduler.request_ids == [waiting]
        scheduler.accept(waiting, [120, 101, 97, 98])
        assert scheduler.record(waiting).phase_tokens == {"reasoning": 2, "answer": 2}


def test_an_opening_allows_markers_at_the_beginning_alone() -> None:
    inner = Grammar.from_regex("(a|12?)b+").compile(TOKENIZER).matcher()
    matcher = OpeningMatcher(inner, [(START,), tuple(ids(b"1", b"2", b"1"))])

    def allowed() -> set[int]:
        mask = np.zeros((1, (VOCAB + 31) // 32), np.int32)
        matcher.fill_bitmask(mask)
        return {t for t in range(VOCAB) if mask[0, t // 32] >> t % 32 & 1}

    digit_1, digit_2, a, ab, b = ids(b"1", b"2", b"a", b"ab", b"b")
    assert allowed() == {START, digit_1, a, ab}
    assert matcher.accept(digit_1)
    assert allowed() == {digit_2, b}
    assert matcher.accept(digit_2)
    assert allowed() == {digit_1, b}
    copy = matcher.fork()
    assert copy.accept(b)
    assert not copy.accept(digit_1)
    assert matcher.accept(digit_1)
    assert allowed() == set()
    assert not matcher.accept(b)
    matcher.rollback(1)
    assert matcher.accept(b)
    matcher.rollback(3)
    matcher.is_open = False
    assert allowed() == {digit_1, a, ab}
    assert not matcher.accept(START)


def test_siblings_and_forks_share_no_grammar() -> None:
    chat = Chat.with_backend("native", [START, END])
    params = SamplingParams(
        n=3, seed=4, thinking="qwen_3", regex="[ab]{3,6}", thinking_token_budget=4, max_tokens=30
    )
    siblings = chat.scheduler.add_group(params, [START])
    chat.prompts |= {i: [START] for i in siblings}
    chat.step()
    fork = chat.scheduler.fork(siblings[0])
    chat.prompts[fork] = [START]
    chat.run()
    texts = [chat.record(i).text for i in (*siblings, fork)]
    assert all(chat.record(i).error is None for i in (*siblings, fork))
    assert texts[0] == texts[3]
    assert all(set((text or "")[-3:]) <= {"a", "b"} for text in texts)
