"""The captures in the record of a request are those of its output, whatever has happened to it."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import numpy as np
import pytest

from engine_sampler import Record, SamplingParams, Scheduler
from engine_sampler.contract.constraints import settings_of
from engine_sampler.grammar import Grammar, GrammarLimitError
from engine_sampler.grammar.compiled import CompiledGrammar

from ..bytewise import EOS, TOKENIZER, VOCAB, model_row
from ..grammar.both_engines import ENGINES

GRAMMAR = Grammar.from_lark("""
start: entry ("," entry){2,5} ";"
entry[capture]: key ":" (word | "(" entry ")")
key[capture="name"]: /[a-c]{1,2}/
word[capture]: /[a-f]{2,4}/
%ignore " "
""")
COMPILED = GRAMMAR.compile(TOKENIZER)
PARAMS = SamplingParams(seed=3, max_tokens=40)


def rows(scheduler: Scheduler, drafts: int = 0) -> np.ndarray:
    found = []
    for request_id in scheduler.request_ids:
        tokens = scheduler.record(request_id).token_ids
        found += [model_row([*tokens, *DRAFT[:count]]) for count in range(drafts + 1)]
    return np.array(found, np.float32)


DRAFT = [97, 58]


def expect_exact(record: Record) -> None:
    """The captures are those of a text that has come at once, and what they say of tokens and text holds."""
    assert record.text is not None
    assert record.captures is not None
    text = record.text.encode()
    whole = GRAMMAR.captures(text)
    assert record.captures == COMPILED.captures(record.token_ids)
    assert {name: [capture[:3] for capture in some] for name, some in record.captures.items()} == {
        name: [capture[:3] for capture in some] for name, some in whole.items()
    }
    for some in record.captures.values():
        for capture in some:
            assert capture.tokens is not None
            assert text[capture.start : capture.end] == capture.data
            tokens = record.token_ids[slice(*capture.tokens)]
            assert capture.data in b"".join(TOKENIZER.token_bytes[token] for token in tokens)


def started(**keywords: Any) -> Scheduler:
    scheduler = Scheduler(VOCAB, TOKENIZER, eos_token_ids=[EOS])
    scheduler.add(PARAMS, request_id="a", grammar=COMPILED, **keywords)
    return scheduler


def finished() -> Record:
    scheduler = started()
    while scheduler.request_ids:
        scheduler.step(rows(scheduler))
    return scheduler.record("a")


def test_captures_grow_with_the_output() -> None:
    scheduler = started()
    counts = []
    while scheduler.request_ids:
        scheduler.step(rows(scheduler))
        expect_exact(scheduler.record("a"))
        counts.append(len((scheduler.record("a").captures or {})["name"]))
    assert counts[-1] > 1
    assert scheduler.record("a").captures == finished().captures


def test_drafts_rollback_and_suspension_change_nothing() -> None:
    scheduler, choice = started(), random.Random(5)
    while scheduler.request_ids:
        kind = choice.randrange(4)
        have = len(scheduler.record("a").token_ids)
        if kind == 0:
            scheduler.step(rows(scheduler, len(DRAFT)), draft_token_ids=[DRAFT])
        elif kind == 1 and have:
            scheduler.rollback("a", choice.randint(1, min(have, 3)))
        elif kind == 2:
            scheduler.suspend("a")
            expect_exact(scheduler.record("a"))
            scheduler.resume("a")
        else:
            scheduler.step(rows(scheduler))
        expect_exact(scheduler.record("a"))
    assert scheduler.record("a").captures == finished().captures


def test_a_fork_has_captures_of_its_own() -> None:
    scheduler = started()
    for _ in range(6):
        scheduler.step(rows(scheduler))
    scheduler.fork("a", new_request_id="b", seed=8)
    while scheduler.request_ids:
        scheduler.step(rows(scheduler))
        expect_exact(scheduler.record("a"))
        expect_exact(scheduler.record("b"))
    assert scheduler.record("a").captures == finished().captures
    assert scheduler.record("b").captures != finished().captures


def test_output_that_came_before_counts() -> None:
    tokens = finished().token_ids
    scheduler = started(output_token_ids=tokens[:-2])
    expect_exact(scheduler.record("a"))
    while scheduler.request_ids:
        scheduler.step(rows(scheduler))
    assert scheduler.record("a").captures == finished().captures


@pytest.mark.parametrize("opens", [True, False])
def test_thoughts_before_the_answer_only_move_captures(opens: bool) -> None:
    marks = {"start": [[60, 62]], "end": [[60, 47]]}
    params = PARAMS.replace(thinking=marks, thinking_token_budget=4)
    scheduler = Scheduler(VOCAB, TOKENIZER, eos_token_ids=[EOS])
    scheduler.add(params, [60, 62] if opens else [97], request_id="a", grammar=COMPILED)
    if not opens:
        scheduler.accept("a", [60, 62])
    thought = {"entry": [], "name": [], "word": []}
    assert scheduler.record("a").captures == thought
    while scheduler.request_ids:
        scheduler.step(rows(scheduler))
    record = scheduler.record("a")
    assert record.captures not in (thought, None)
    before = (record.phase_tokens or {})["reasoning"]
    assert record.captures == COMPILED.captures(record.token_ids, begin=before)
    for one in (record.captures or {})["entry"]:
        data = b"".join(TOKENIZER.token_bytes[token] for token in record.token_ids)
        assert data[one.start : one.end] == one.data
        assert one.tokens is not None
        assert one.tokens[0] >= before


def test_a_request_whose_rules_set_parameters_has_captures() -> None:
    text = 'start: w ("," w){2} ";"\nw[capture, temperature=0.5]: /[a-c]{1,3}/'
    grammar = Grammar.from_lark(text).compile(TOKENIZER)
    scheduler = Scheduler(VOCAB, TOKENIZER, eos_token_ids=[EOS])
    scheduler.add(PARAMS, request_id="a", grammar=grammar)
    while scheduler.request_ids:
        scheduler.step(rows(scheduler))
        record = scheduler.record("a")
        assert record.captures == grammar.captures(record.token_ids)
    assert len((scheduler.record("a").captures or {})["w"]) == 3


def test_captures_that_take_too_long_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **keywords: Any) -> Any:
        raise GrammarLimitError("too many steps")

    scheduler = started()
    monkeypatch.setattr(CompiledGrammar, "captures", refuse)
    assert scheduler.record("a").captures is None


def test_other_requests_have_no_captures() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(PARAMS, request_id="a")
    scheduler.add(PARAMS.replace(regex="a+"), request_id="b")
    assert scheduler.record("a").captures == {}
    assert scheduler.record("b").captures == {}


def test_a_matcher_that_has_begun_elsewhere_has_none() -> None:
    matcher = COMPILED.matcher()
    assert matcher.accept_bytes(b"a:")
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(PARAMS, request_id="a", grammar=matcher)
    assert scheduler.record("a").captures == {}


@pytest.mark.parametrize("copied", [lambda matcher: matcher.fork().fork(), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_fork_of_a_matcher_carries_the_captures_of_its_grammar(engine: str, copied: Any) -> None:
    compiled = CompiledGrammar(GRAMMAR.program, TOKENIZER, engine=engine)
    scheduler = Scheduler(VOCAB, TOKENIZER, eos_token_ids=[EOS])
    scheduler.add(PARAMS, request_id="a", grammar=copied(compiled.matcher()))
    while scheduler.request_ids:
        scheduler.step(rows(scheduler))
    expect_exact(scheduler.record("a"))
    assert scheduler.record("a").captures == finished().captures


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_fork_carries_settings_through_what_wraps_the_engine(engine: str) -> None:
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
    text = f'start: "a" t\nt[temperature=0.5]: %json {json.dumps(schema)}'
    program = Grammar.from_lark(text).program
    assert program.unique_items
    matcher = CompiledGrammar(program, TOKENIZER, engine=engine).matcher()
    settings = settings_of(matcher.fork())
    assert settings is settings_of(matcher) is not None
    assert settings_of(CompiledGrammar(program, TOKENIZER, engine=engine).matcher()) is not settings
