"""The time that a grammar adds to a step: its masks, filled within the step or before it, and its accepts
after it; and the time that masks of any density add to a run."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest

from engine_sampler import Scheduler, Tokenizer
from engine_sampler.cli.bench import rows
from engine_sampler.grammar.compiled import CompiledGrammar
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.grammar import Grammar

from .cases import MAIN, MASKED_CASES, SHARES, Shape, params_of
from .engines import Engine
from .measure import Work, measure, nothing
from .results import GRAMMAR, GRAMMAR_AHEAD, MASKED, STEP, masked

REQUESTS = 64
CASE = "default chain"
SCHEMA = {"type": "array", "items": {"type": ["string", "number", "object"]}, "minItems": 10**6}
"""A schema whose texts do not end during the measurement."""


@cache
def json_grammar() -> CompiledGrammar:
    """JSON over one-byte tokens and as many longer tokens as the vocabulary has room for."""
    if native.load_library() is None:
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
    free, constrained = _scheduler(None), _scheduler(json_grammar())
    work = Work(partial(constrained.step, logits), constrained.prepare if case == GRAMMAR_AHEAD else nothing)
    measure(benchmark, work, STEP, shape, {"without": Work(partial(free.step, logits))})
    assert len(constrained.request_ids) == REQUESTS


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("batch", [1, REQUESTS])
@pytest.mark.parametrize("case", MASKED_CASES)
def bench_run_with_masks(benchmark, case, batch, share):
    random = np.random.default_rng(0)
    allowed = random.random((batch, MAIN)) < share
    bitmask = np.packbits(allowed, axis=1, bitorder="little").view("<i4").astype(np.int32)
    engine = Engine.of(Shape(case, MAIN, batch))
    shape = Shape(masked(case, share), MAIN, batch)
    measure(benchmark, engine.run_masked(bitmask), MASKED, shape, {"without": engine.run})
