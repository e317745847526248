"""What a grammar adds to a step: its masks, filled with the step or before it, and the accepts behind it."""

from __future__ import annotations

from functools import cache, partial

import pytest

from engine_sampler import Scheduler, Tokenizer
from engine_sampler.grammar import native
from engine_sampler.grammar.compiled import CompiledGrammar
from engine_sampler.grammar.grammar import Grammar

from . import rows
from .cases import MAIN, Shape, params_of
from .measure import Work, measure, nothing
from .results import GRAMMAR, GRAMMAR_AHEAD, STEP

REQUESTS = 64
CASE = "default chain"
SCHEMA = {"type": "array", "items": {"type": ["string", "number", "object"]}, "minItems": 10**6}
"""Of texts that do not end while they are measured."""


@cache
def _grammar() -> CompiledGrammar:
    """JSON over one-byte tokens, and longer ones as many as the vocabulary has."""
    if native.engine() is None:
        pytest.skip("the native library has no grammar engine")
    pieces = [bytes([byte]) for byte in range(256)]
    pieces += [f"{i:05x}".encode() for i in range(MAIN - len(pieces) - 1)]
    tokenizer = Tokenizer([*pieces, b"<eos>"], [MAIN - 1])
    return Grammar.from_json_schema(SCHEMA).compile(tokenizer)


def _scheduler(grammar: CompiledGrammar | None) -> Scheduler:
    scheduler = Scheduler(MAIN)
    for _ in range(REQUESTS):
        scheduler.add(params_of(CASE), grammar=grammar and grammar.matcher())
    return scheduler


@pytest.mark.parametrize("case", [GRAMMAR, GRAMMAR_AHEAD])
def bench_step_with_a_grammar(benchmark, case):
    logits, shape = rows.batch(MAIN, REQUESTS), Shape(case, MAIN, REQUESTS)
    free, bound = _scheduler(None), _scheduler(_grammar())
    work = Work(partial(bound.step, logits), bound.prepare if case == GRAMMAR_AHEAD else nothing)
    measure(benchmark, work, STEP, shape, {"without": Work(partial(free.step, logits))})
    assert len(bound.request_ids) == REQUESTS
