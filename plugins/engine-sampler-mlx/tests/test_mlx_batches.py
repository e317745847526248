"""One batched call for all sequences of mlx-lm's `BatchGenerator`: alone, and inside the generator."""

from __future__ import annotations

import doctest
import gc
from typing import Any

import numpy as np
import pytest
from engine_sampler_mlx import batches as mlx_batches
from engine_sampler_mlx.batches import MlxBatchSampler

from engine_sampler import Grammar, ParameterError, SamplingParams, Scheduler, Tokenizer

VOCAB = 30
PARAMS = [
    SamplingParams(temperature=0),
    SamplingParams(repetition_penalty=1.5, top_p=0.9, seed=1),
    SamplingParams(mirostat=2, seed=2),
    SamplingParams(presence_penalty=1.0, dry_multiplier=0.5, min_p=0.05, seed=3),
    SamplingParams(temperature=1.4, seed=4),
]
PROMPTS = [[1, 2, 3], [4], [5, 6], [7, 8, 7, 8, 7], [9]]


def step(sampler: Any, requests: list[Any], texts: list[list[int]], rows: np.ndarray) -> list[int]:
    """What a generator does with the logits of a step."""
    for request, text, row in zip(requests, texts, rows, strict=True):
        assert request(text, row[None]) is not None
    drawn = sampler(rows)
    assert drawn.dtype == np.uint32
    return [int(token) for token in drawn]


def test_the_example_of_the_docstring_runs() -> None:
    assert doctest.testmod(mlx_batches).failed == 0


def test_each_row_draws_as_its_request_alone_whatever_comes_and_goes() -> None:
    random = np.random.default_rng(1)
    sampler = MlxBatchSampler(VOCAB)
    requests, texts = [sampler.request(params) for params in PARAMS], [list(prompt) for prompt in PROMPTS]
    alone = [Scheduler(VOCAB) for _ in PARAMS]
    for scheduler, params, prompt in zip(alone, PARAMS, PROMPTS, strict=True):
        scheduler.add(params, prompt)
    for present in ([0, 1], [2], [0, 1, 2], [3, 0, 2, 4], [4, 3, 2], [1, 4], [0, 1, 2, 3, 4]) * 2:
        rows = random.normal(0, 2, (len(present), VOCAB)).astype(np.float32)
        drawn = step(sampler, [requests[i] for i in present], [texts[i] for i in present], rows)
        for i, row, token in zip(present, rows, drawn, strict=True):
            assert token == alone[i].step(row[None]).token_ids[0]
            texts[i].append(token)


def test_an_ended_request_draws_the_end() -> None:
    tokenizer = Tokenizer([b"</s>", b"a", b"b", b"ab"], eos_token_ids=[0])
    sampler = MlxBatchSampler(4, tokenizer)
    grammar = Grammar.from_regex("ab")
    requests = [
        sampler.request(SamplingParams(temperature=0), grammar=grammar),
        sampler.request(SamplingParams(temperature=0, max_tokens=1)),
    ]
    rows = np.array([[0, 3, 2, 1], [0, 1, 3, 2]], np.float32)
    drawn = [step(sampler, requests, [[], []], rows) for _ in range(4)]
    assert drawn == [[1, 2], [2, 0], [0, 0], [0, 0]]
    assert all(request.has_ended for request in requests)


def test_a_faulty_row_ends_alone(caplog: pytest.LogCaptureFixture) -> None:
    sampler = MlxBatchSampler(VOCAB, eos_token_ids=[0])
    requests = [sampler.request(SamplingParams(temperature=0)) for _ in range(2)]
    rows = np.zeros((2, VOCAB), np.float32)
    rows[0, 3], rows[1, 5] = np.nan, 1
    assert step(sampler, requests, [[1], [1]], rows) == [0, 5]
    assert "row 0" in caplog.text
    rows[0, 3] = 4
    assert step(sampler, requests, [[1], [1]], rows) == [0, 5]


def test_requests_that_nothing_refers_to_leave_the_scheduler() -> None:
    sampler = MlxBatchSampler(VOCAB)
    requests = [sampler.request(params) for params in PARAMS]
    step(sampler, requests, PROMPTS, np.zeros((5, VOCAB), np.float32))
    assert len(sampler.scheduler.request_ids) == 5
    del requests[1:]
    gc.collect()
    assert len(sampler.scheduler.request_ids) == 1


def test_rows_without_a_request_are_refused() -> None:
    sampler = MlxBatchSampler(VOCAB)
    request = sampler.request(PARAMS[0])
    rows = np.zeros((2, VOCAB), np.float32)
    for announced in ([], [request], [request, request]):
        for one in announced:
            one([1], rows[:1])
        with pytest.raises(ValueError, match=r"2 rows and \d requests"):
            sampler(rows)
    assert step(sampler, [request], [[1]], rows[:1]) == [0]


def test_wrong_parameters_are_refused_before_the_first_step() -> None:
    with pytest.raises(ParameterError, match="logit_bias"):
        MlxBatchSampler(VOCAB).request(SamplingParams(logit_bias={VOCAB: 1.0}))


# --- inside mlx-lm ---------------------------------------------------------------------------------


class Bigrams:
    """A model without layers: the logits of a token depend on it alone."""

    layers: list[Any] = []

    def __init__(self, mx: Any) -> None:
        self._mx = mx
        self.table = np.random.default_rng(5).normal(0, 2, (VOCAB, VOCAB)).astype(np.float32)

    def __call__(self, tokens: Any, cache: Any = None) -> Any:
        return self._mx.array(self.table)[tokens]

    def logprobs(self, mx: Any, token: int) -> np.ndarray:
        """A row as the generator hands it to samplers."""
        logits = mx.array(self.table[token : token + 1])
        return np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))


def test_generators_draw_all_sequences_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    mx = pytest.importorskip("mlx.core")
    generate = pytest.importorskip("mlx_lm.generate")
    model, sampler = Bigrams(mx), MlxBatchSampler(VOCAB)
    calls: list[int] = []
    monkeypatch.setattr(
        MlxBatchSampler,
        "__call__",
        lambda self, rows, of=MlxBatchSampler.__call__: calls.append(len(rows)) or of(self, rows),
    )
    generator = generate.BatchGenerator(model, max_tokens=12, sampler=sampler)
    requests = [sampler.request(params) for params in PARAMS]
    texts: dict[int, list[int]] = {}
    first = generator.insert(PROMPTS[:3], logits_processors=[[request] for request in requests[:3]])
    ids = list(first)
    for number in range(60):
        if number == 4:
            ids += generator.insert(PROMPTS[3:], logits_processors=[[request] for request in requests[3:]])
        _, responses = generator.next()
        for response in responses:
            texts.setdefault(response.uid, []).append(response.token)
    generator.close()
    for uid, params, prompt in zip(ids, PARAMS, PROMPTS, strict=True):
        scheduler, token, expected = Scheduler(VOCAB), prompt[-1], []
        scheduler.add(params, prompt)
        for _ in range(12):
            token = int(scheduler.step(model.logprobs(mx, token)).token_ids[0])
            expected.append(token)
        assert texts[uid] == expected
    assert max(calls) == 5
