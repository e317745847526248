"""Observers are told how requests get their grammars: newly compiled, from the cache, or not at all."""

from __future__ import annotations

import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.contract import GrammarMeasures
from engine_sampler.grammar import GrammarCompiler

from ...bytewise import fresh_tokenizer
from ...engines import observed


def test_the_first_request_compiles_and_the_second_finds_it_in_the_cache() -> None:
    tokenizer = fresh_tokenizer()
    scheduler = Scheduler(len(tokenizer), tokenizer)
    with observed("grammar_compiled") as seen:
        for _ in range(2):
            scheduler.add(SamplingParams(regex="[a-c]{3}"))
        with pytest.raises(ParameterError):
            scheduler.add(SamplingParams(regex="[a-c"))
    assert [(measures.cached, measures.error is None) for measures in seen] == [
        (False, True),
        (True, True),
        (False, False),
    ]
    assert all(isinstance(measures, GrammarMeasures) and measures.seconds >= 0 for measures in seen)


def test_a_request_without_a_grammar_tells_nothing() -> None:
    with observed("grammar_compiled") as seen:
        Scheduler(10).add(SamplingParams())
    assert seen == []


def test_grammars_that_a_compiler_compiles_are_told_of_too() -> None:
    tokenizer = fresh_tokenizer()
    with observed("grammar_compiled") as seen, GrammarCompiler() as compiler:
        scheduler = Scheduler(len(tokenizer), tokenizer, grammar_compiler=compiler)
        for regex in ("[a-d]{3}", "[a-d"):
            scheduler.add(SamplingParams(regex=regex))
            assert scheduler.wait_ready(60)
            assert len(scheduler.request_ids) > 0
    assert [(measures.cached, measures.error is None) for measures in seen] == [(False, True), (False, False)]
