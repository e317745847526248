"""Requests in SGLang's own batches draw what each would alone."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from sglang_engine import VOCAB, Batch, SglangEngine, new_request, output_of, torch

from engine_sampler import sample

settings_of = pytest.importorskip("engine_sampler_sglang.settings")

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))

SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 1.3, "top_k": 9, "min_p": 0.05},
    {"top_k": 20, "top_p": 0.7, "min_p": 0.1, "temperature": 1.5},
    {"repetition_penalty": 1.3, "frequency_penalty": 0.5, "presence_penalty": -0.3},
    {"logit_bias": {"3": 4.0, "5": -90.0}, "min_new_tokens": 8, "stop_token_ids": [1, 2]},
    {"custom_params": {"dry_multiplier": 0.8, "dry_allowed_length": 1}},
    {"temperature": 0.7, "custom_params": {"top_n_sigma": 1.0, "xtc_probability": 0.5, "unknown": 1}},
]


def alone(request: Any, output: list[int], row: np.ndarray) -> int:
    """What our functions draw for a request of SGLang's, given the logits that its sampler is given."""
    params = settings_of.params_of(request.sampling_params)
    prompt = list(request.origin_input_ids)
    drawn = sample(row[None], params, prompt_token_ids=[prompt], output_token_ids=[output], backend="numpy")
    return int(drawn.token_ids[0])


class Simulation:
    """Random requests through an engine, each compared with itself alone."""

    def __init__(self, seed: int, is_late: bool) -> None:
        self.random, self.engine = np.random.default_rng(seed), SglangEngine(is_late)
        self.outputs: dict[str, list[int]] = {}
        self.last: dict[str, int] = {}
        self.rows = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._leave()
            if len(self.engine.running.reqs) < 3 or self.random.random() < 0.2:
                self._arrive()
            self._decode()

    def _arrive(self) -> None:
        """A prefill, perhaps after one whose token does not count because its prompt was divided."""
        new = [self._new() for _ in range(self.random.integers(1, 4))]
        if self.random.random() < 0.3:
            self._step(Batch(new), counts=False)
        batch = Batch(new)
        self._step(batch)
        self.engine.running.merge(batch) if self.engine.running.reqs else self._run(batch)

    def _run(self, batch: Batch) -> None:
        self.engine.running = batch

    def _new(self) -> Any:
        settings = SETTINGS[int(self.random.integers(len(SETTINGS)))]
        name, seed = f"request {len(self.outputs)}", int(self.random.integers(2**31))
        self.outputs[name] = []
        prompt = self.random.integers(0, VOCAB, self.random.integers(1, 9)).tolist()
        request = new_request(name, prompt, sampling_seed=seed, **settings)
        request.sampling_params.normalize(request.tokenizer)
        return request

    def _leave(self) -> None:
        """Requests end, and some are retracted: they come back with what they have got."""
        reqs = self.engine.running.reqs
        gone = [i for i in range(len(reqs)) if self.random.random() < 0.1]
        if not gone:
            return
        back = [reqs[i] for i in gone if self.random.random() < 0.3]
        self.engine.running.filter([i for i in range(len(reqs)) if i not in gone])
        for request in back:
            del self.outputs[request.rid][len(request.output_ids) :]  # what was on its way is lost
            self.engine._on_their_way = [p for p in self.engine._on_their_way if p[0] is not request]
        if back and not any(r.sampling_params.repetition_penalty != 1.0 for r in back):
            batch = Batch(back)
            self._step(batch)
            self.engine.running.merge(batch) if self.engine.running.reqs else self._run(batch)

    def _decode(self) -> None:
        running = self.engine.running
        if running.reqs:
            self.engine.count_for_penalties([self.last[r.rid] for r in running.reqs])
            self._step(running)

    def _step(self, batch: Batch, counts: bool = True) -> None:
        logits = self.random.normal(0, 3, (len(batch.reqs), VOCAB)).astype(np.float32)
        tokens, seen = self.engine.draw(batch, logits, counts=counts)
        expected = [
            alone(r, self.outputs[r.rid], row) for r, row in zip(batch.reqs, seen.numpy(), strict=True)
        ]
        assert tokens == expected
        self.rows += len(tokens)
        for request, token_id in zip(batch.reqs, tokens, strict=True) if counts else ():
            self.outputs[request.rid].append(token_id)
            self.last[request.rid] = token_id


@pytest.mark.parametrize("is_late", [False, True], ids=["one after the other", "overlapped"])
def test_each_row_draws_what_its_request_alone_draws(is_late: bool) -> None:
    """Requests arrive, merge, leave, are retracted, and have prompts in several parts."""
    simulation = Simulation(3, is_late)
    simulation.run(60 * ROUNDS)
    assert simulation.rows > 150 * ROUNDS


def test_requests_without_a_seed_draw_the_same_on_all_ranks() -> None:
    ranks = [SglangEngine(), SglangEngine(True)]
    batches = [Batch([new_request(name, [1, 2]) for name in "abc"]) for _ in ranks]
    drawn: list[list[list[int]]] = [[], []]
    for step in range(8):
        logits = np.random.default_rng(step).normal(0, 1, (3, VOCAB)).astype(np.float32)
        for engine, batch, tokens in zip(ranks, batches, drawn, strict=True):
            tokens.append(engine.draw(batch, logits)[0])
    assert drawn[0] == drawn[1]
    assert len({tuple(tokens) for tokens in zip(*drawn[0], strict=True)}) == 3


def test_a_batch_of_nobodys_requests_is_drawn_by_its_columns() -> None:
    engine = SglangEngine()
    batch = Batch([new_request(name, [1], temperature=0.0) for name in "ab"])
    batch.info.engine_sampler_rows = None  # type: ignore[attr-defined]
    logits = np.random.default_rng(0).normal(0, 1, (2, VOCAB)).astype(np.float32)
    assert engine.draw(batch, logits)[0] == logits.argmax(1).tolist()


def test_an_empty_batch_draws_nothing() -> None:
    engine = SglangEngine()
    assert engine.draw(Batch([]), np.zeros((0, VOCAB), np.float32))[0] == []


def test_wrong_custom_params_are_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    engine = SglangEngine()
    batch = Batch([new_request("a", [1], temperature=0.0, custom_params={"dry_multiplier": -1.0})])
    assert engine.draw(batch, np.arange(VOCAB, dtype=np.float32)[None])[0] == [VOCAB - 1]
    assert "dry_multiplier" in caplog.text


def test_a_faulty_row_gets_a_token_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    engine = SglangEngine()
    batch = Batch([new_request(name, [1], temperature=0.0) for name in "ab"])
    logits = np.zeros((2, VOCAB), np.float32)
    logits[0, :5], logits[0, 9], logits[1, 4] = np.nan, 3.0, 5.0
    for _ in range(3):
        assert engine.draw(batch, logits)[0] == [9, 4]
    assert "row 0" in caplog.text


def test_the_logits_of_the_engine_stay_as_they_are() -> None:
    engine, batch = SglangEngine(), Batch([new_request("a", [1], temperature=0.5, top_k=3)])
    row = torch.arange(VOCAB, dtype=torch.float32)[None]
    output = output_of(row)
    engine.sampler(output, batch.info.copy_for_forward(), False, None, None, None)
    assert output.next_token_logits.equal(row)
