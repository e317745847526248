"""The time that a grammar adds to a step: its masks, filled within the step or before it, and its accepts
after it; and the time that masks of any density add to a run."""

from __future__ import annotations

import itertools
from functools import cache, partial

import numpy as np
import pytest

from engine_sampler import Scheduler, Tokenizer
from engine_sampler.cli.bench import rows
from engine_sampler.grammar.compiled import CompiledGrammar
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.grammar import Grammar

from .cases import MAIN, MASKED_CASES, SHARES, SMALL, Shape, params_of
from .engines import Engine
from .measure import Work, measure, nothing
from .results import GRAMMAR, GRAMMAR_AHEAD, MASKED, STEP, draft_tree, masked

REQUESTS = 64
CASE = "default chain"
WIDTHS = 4, 6, 5, 4, 2, 1
"""The levels of a draft tree."""
SCHEMA = {"type": "array", "items": {"type": ["string", "number", "object"]}, "minItems": 10**6}
"""A schema whose texts do not end during the measurement."""


@cache
def json_grammar(vocab_size: int = MAIN) -> CompiledGrammar:
    """JSON over one-byte tokens and as many longer tokens as the vocabulary has room for."""
    if native.load_library() is None:
        pytest.skip("the native library has no grammar engine")
    pieces = [bytes([byte]) for byte in range(256)]
    pieces += [f"{i:05x}".encode() for i in range(vocab_size - len(pieces) - 1)]
    tokenizer = Tokenizer([*pieces, b"<eos>"], [vocab_size - 1])
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


class _InAString:
    """One request in the middle of a JSON string, that goes back there after each step."""

    def __init__(self, vocab_size: int) -> None:
        self.scheduler = Scheduler(vocab_size, eos_token_ids=[vocab_size - 1])
        matcher = json_grammar(vocab_size).matcher()
        matcher.accept_bytes(b'["')
        self.scheduler.add(params_of(CASE), grammar=matcher, request_id=0)

    def go_back(self) -> None:
        self.scheduler.rollback(0, len(self.scheduler.record(0).token_ids))

    def path(self, logits: np.ndarray) -> list[int]:
        """What it draws from these rows, one after the other."""
        path = [self.scheduler.step(row[None]).tokens(0) for row in logits]
        while [] in path:  # a mask took more than a step's work, and is known the next time
            self.go_back()
            path = [self.scheduler.step(row[None]).tokens(0) for row in logits]
        self.go_back()
        return [token for (token,) in path]


def _tree(path: list[int], right: int) -> tuple[list[int], list[int]]:
    """Nodes in levels of `WIDTHS`, each level below the first ones of the level above; the first nodes of
    `right` levels are the beginning of `path`."""
    tokens, parents, above = list[int](), list[int](), range(-1, 0)
    for depth, width in enumerate(WIDTHS):
        first = len(tokens)
        tokens += [path[depth] if i == 0 and depth < right else ord("a") + i for i in range(width)]
        parents += [above[i // 2 % len(above)] for i in range(width)]
        above = range(first, len(tokens))
    return tokens, parents


@pytest.mark.parametrize("right", [0, 2, 4, 6])
@pytest.mark.parametrize("vocab_size", [SMALL, MAIN])
def bench_step_with_a_draft_tree(benchmark, vocab_size, right):
    """A tree of 22 nodes, of whose levels some are right, beside a step of one row."""
    several, single = _InAString(vocab_size), _InAString(vocab_size)
    logits = rows.batch(vocab_size, 1 + sum(WIDTHS))
    for row in logits:
        single.path(row[None])
    first_of_levels = np.cumsum([0, *WIDTHS[:-1]])
    path = single.path(logits[[0, *(1 + first_of_levels)]])
    tree, number = _tree(path, right), itertools.cycle(range(len(logits)))
    several.path(logits[[0, *(1 + first_of_levels)]])

    def verify():
        assert len(several.scheduler.step(logits, draft_trees=[tree]).tokens(0)) == 1 + right

    def step():
        i = next(number)
        single.scheduler.step(logits[i : i + 1])

    shape = Shape(draft_tree(right), vocab_size, len(logits))
    measure(benchmark, Work(verify, several.go_back), STEP, shape, {"one row": Work(step, single.go_back)})


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
