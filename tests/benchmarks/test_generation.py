"""The whole engines of the benchmarks: all their sides do the same work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")
pytest.importorskip("llama_cpp")
pytest.importorskip("mistral_common")
pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("xgrammar")

import torch

from benchmarks.generation import models, of_llama_cpp, of_transformers
from benchmarks.generation.cases import SCHEMA, TOP_N, Case
from benchmarks.generation.engines import LLAMA_CPP, NEEDED, TRANSFORMERS, opened
from engine_sampler import logprobs
from engine_sampler.grammar import Grammar

VOCAB = 1400
"""The special tokens of the vocabulary, the 256 bytes, and some words."""
GREEDY = {"temperature": 0}


@pytest.fixture(scope="module", params=NEEDED)
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    threads = torch.get_num_threads()
    with opened(request.param, VOCAB, GREEDY) as found:
        yield found
    torch.set_num_threads(threads)


@pytest.mark.parametrize("with_logprobs", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
def test_all_sides_give_the_same_best_tokens(engine: Any, rows: int, with_logprobs: bool) -> None:
    sides = engine.sides(Case(rows, 6, logprobs=with_logprobs))
    own, *ours = [side.generate(0) for side in sides]
    assert [len(row) for row in own] == [6] * rows
    assert len({tuple(row) for row in own}) == rows
    assert all(rows == own for rows in ours), [side.name for side in sides]


@pytest.mark.parametrize("rows", [1, 3])
def test_all_sides_give_json(engine: Any, rows: int) -> None:
    tokenizer = models.tokenizer(VOCAB)
    grammar = Grammar.from_json_schema(SCHEMA, whitespace="any").compile(tokenizer)
    for side in engine.sides(Case(rows, 8, grammar=True)):
        for row in side.generate(0):
            matcher = grammar.matcher()
            assert all(matcher.accept(token) for token in row), (side.name, tokenizer.decode(row))


def test_no_text_of_the_models_ends_by_itself(engine: Any) -> None:
    for side in engine.sides(Case(1, 60)):
        assert len(side.generate(1)[0]) == 60


def test_llama_cpp_is_timed_while_its_engine_is_open() -> None:
    import llama_cpp

    before = llama_cpp.llama_decode
    with opened(LLAMA_CPP, VOCAB, GREEDY) as engine:
        for side in engine.sides(Case(3, 2)):
            engine.clock.seconds = 0.0
            side.generate(0)
            assert engine.clock.seconds > 0
    assert llama_cpp.llama_decode is llama_cpp.llama_cpp.llama_decode is before


def test_every_forward_pass_of_transformers_is_counted() -> None:
    with opened(TRANSFORMERS, VOCAB, GREEDY) as engine:
        passes = []
        engine._model.register_forward_hook(lambda *_: passes.append(engine.clock.seconds))
        for side in engine.sides(Case(2, 3)):
            side.generate(0)
        assert len(passes) == 3 * 3
        assert passes == sorted(set(passes))


def test_the_logprobs_of_a_loop_are_those_of_the_rows() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (4, 50)).astype(np.float32)
    tokens = [3, 1, 4, 1]
    drawn, ids, best = of_llama_cpp.top_logprobs(logits, tokens, TOP_N)
    expected = logprobs(logits, tokens, top_n=TOP_N)
    assert np.allclose(drawn, expected.logprobs[:, 0], atol=1e-5)
    assert np.array_equal(np.sort(ids), np.sort(expected.token_ids[:, 1:]))
    assert np.allclose(np.sort(best), np.sort(expected.logprobs[:, 1:]), atol=1e-5)


def test_the_logprobs_of_transformers_outputs_are_those_of_the_rows() -> None:
    class Output:
        logits = tuple(torch.randn(2, 50, generator=torch.manual_seed(i)) for i in range(3))
        sequences = torch.tensor([[7, 1, 2, 3], [7, 4, 5, 6]])

    for step, (drawn, best) in enumerate(of_transformers.top_logprobs(Output, TOP_N)):
        tokens = Output.sequences[:, step + 1].tolist()
        expected = logprobs(Output.logits[step], tokens, top_n=TOP_N)
        assert np.allclose(drawn[:, 0], expected.logprobs[:, 0], atol=1e-5)
        assert np.allclose(best, expected.logprobs[:, 1:], atol=1e-5)
