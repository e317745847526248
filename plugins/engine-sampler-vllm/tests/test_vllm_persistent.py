"""The V1 interface: a persistent batch of rows, with a small copy of the published protocol."""

from __future__ import annotations

import logging
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_sampler_vllm.logits_processor import EngineSampler
from vllm_protocol import (
    EXTRA_ARGS,
    VOCAB,
    Batch,
    Direction,
    FakeRequest,
    Params,
    logits,
    new_request,
    tokens,
)


def processor() -> EngineSampler:
    return EngineSampler(SimpleNamespace(), "cpu", False)


def applied(sampler: EngineSampler, values: np.ndarray, library: str = "numpy") -> np.ndarray:
    """`values` after the processor, which must have written into its input."""
    array: Any = values.copy()
    if library == "torch":
        import torch

        array = torch.from_numpy(array)
    result = sampler.apply(array)
    assert result is array
    return np.asarray(result)


def check(sampler: EngineSampler, batch: Batch, values: np.ndarray, library: str = "numpy") -> None:
    result = applied(sampler, values, library)
    for row, request in enumerate(batch.rows):
        assert request is not None
        np.testing.assert_array_equal(result[row], request.expected(values[row]), f"row {row}: {request}")


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("number", range(4))
def test_every_row_equals_its_single_row_result_in_random_batches(number: int, library: str) -> None:
    if library == "torch":
        pytest.importorskip("torch")
    rng = random.Random(number)
    sampler, batch = processor(), Batch()
    for _ in range(40):
        for row in range(len(batch.rows)):
            if rng.random() < 0.15:
                batch.remove(row)
        for _ in range(rng.choice((0, 0, 1, 2)) if batch.rows else 3):
            batch.add(new_request(rng, may_lack_prompt=True))
        batch.condense()
        if len(batch.rows) > 1 and rng.random() < 0.3:
            batch.swap(*rng.sample(range(len(batch.rows)), 2))
        sampler.update_state(batch.update())
        if batch.rows:
            check(sampler, batch, logits(rng, len(batch.rows)), library)
        for request in batch.rows:
            assert request is not None
            request.output += tokens(rng, rng.choice((1, 1, 1, 2)))


def test_a_row_without_our_keys_is_not_touched() -> None:
    sampler, batch = processor(), Batch()
    batch.add(FakeRequest(Params(None), [1]))
    batch.add(FakeRequest(Params({"other": 3}), [1]))
    sampler.update_state(batch.update())
    values = logits(random.Random(0), 2)
    np.testing.assert_array_equal(applied(sampler, values), values)


def test_an_arrival_replaces_the_request_in_its_row() -> None:
    sampler = processor()
    first = FakeRequest(Params(EXTRA_ARGS[0], seed=1), [1, 2, 1])
    for request in (first, FakeRequest(Params(EXTRA_ARGS[3], seed=2), [3])):
        sampler.update_state(
            SimpleNamespace(removed=[], added=[(0, request.params, request.prompt, request.output)], moved=[])
        )
        values = logits(random.Random(0), 1)
        np.testing.assert_array_equal(applied(sampler, values)[0], request.expected(values[0]))
    leaves = SimpleNamespace(removed=[], added=[(0, Params(None), [1], [])], moved=[])
    sampler.update_state(leaves)
    np.testing.assert_array_equal(applied(sampler, values), values)


def test_a_move_onto_an_occupied_row_ends_that_request_and_a_swap_with_an_empty_row_is_a_move() -> None:
    sampler = processor()
    requests = [FakeRequest(Params(EXTRA_ARGS[i], seed=i), [1, 2, 1, 2, i]) for i in range(2)]
    added = [(i, r.params, r.prompt, r.output) for i, r in enumerate(requests)]
    moves = [(1, 0, Direction.UNIDIRECTIONAL), (0, 2, Direction.SWAP)]
    sampler.update_state(SimpleNamespace(removed=[], added=added, moved=moves))
    values = logits(random.Random(0), 3)
    result = applied(sampler, values)
    np.testing.assert_array_equal(result[:2], values[:2])
    np.testing.assert_array_equal(result[2], requests[1].expected(values[2]))


def test_placeholders_for_pending_tokens_are_not_part_of_the_history() -> None:
    sampler, batch = processor(), Batch()
    request = FakeRequest(Params(EXTRA_ARGS[5], seed=1), [1, 2], [3, -1])
    batch.add(request)
    sampler.update_state(batch.update())
    for output in ([3, -1], [3, 4, -1, -1], [3, 4, 5, 3]):
        request.output[:] = output
        values = logits(random.Random(0), 1)
        result = applied(sampler, values)
        request.output[:] = [token for token in output if token >= 0]
        np.testing.assert_array_equal(result[0], request.expected(values[0]))


def test_tokens_that_vllm_takes_back_leave_the_history() -> None:
    sampler, batch = processor(), Batch()
    request = FakeRequest(Params(EXTRA_ARGS[0], seed=1), [1, 2, 3], [1, 2, 3, 1])
    batch.add(request)
    sampler.update_state(batch.update())
    check(sampler, batch, logits(random.Random(0), 1))
    del request.output[2:]
    check(sampler, batch, logits(random.Random(1), 1))


def test_ids_outside_the_vocabulary_are_left_out() -> None:
    sampler, batch = processor(), Batch()
    batch.add(FakeRequest(Params({"repetition_penalty": 2.0}), [1, VOCAB + 5, -3, 2], [1]))
    sampler.update_state(batch.update())
    values = logits(random.Random(0), 1)
    filtered = FakeRequest(Params({"repetition_penalty": 2.0}), [1, 2], [1])
    np.testing.assert_array_equal(applied(sampler, values)[0], filtered.expected(values[0]))


def test_masked_tokens_stay_masked() -> None:
    for extra_args in EXTRA_ARGS:
        sampler, batch = processor(), Batch()
        batch.add(FakeRequest(Params(extra_args, seed=3), [1, 2, 1], [2]))
        sampler.update_state(batch.update())
        values = np.full((1, VOCAB), -np.inf, np.float32)
        values[0, [1, 2, 5]] = 1.0, 2.0, -3.0
        result = applied(sampler, values)[0]
        assert set(np.flatnonzero(result > -np.inf)) <= {1, 2, 5}, extra_args
        assert result.max() > -np.inf, extra_args


@pytest.mark.parametrize("fault", [np.nan, np.inf])
def test_a_faulty_row_stays_unchanged(fault: float, caplog: pytest.LogCaptureFixture) -> None:
    sampler, batch = processor(), Batch()
    for extra_args in (EXTRA_ARGS[0], EXTRA_ARGS[3]):
        batch.add(FakeRequest(Params(extra_args, seed=3), [1, 2]))
    sampler.update_state(batch.update())
    values = logits(random.Random(0), 2)
    values[0, 3] = fault
    with caplog.at_level(logging.ERROR, "engine_sampler"):
        result = applied(sampler, values)
    np.testing.assert_array_equal(result[0], values[0])
    other = batch.rows[1]
    assert other is not None
    assert "greatest logit" in caplog.text
    np.testing.assert_array_equal(result[1], other.expected(values[1]))


def test_a_row_stays_unchanged_if_the_chain_would_leave_no_token() -> None:
    sampler, batch = processor(), Batch()
    batch.add(FakeRequest(Params({"no_repeat_ngram_size": 1}), [4]))
    sampler.update_state(batch.update())
    values = np.full((1, VOCAB), -np.inf, np.float32)
    values[0, 4] = 1.0
    np.testing.assert_array_equal(applied(sampler, values), values)


def test_parameters_that_do_not_fit_the_vocabulary_are_logged_and_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sampler, batch = processor(), Batch()
    batch.add(FakeRequest(Params({"dry_multiplier": 1.0, "dry_sequence_breakers": [VOCAB]}), [1]))
    batch.add(FakeRequest(Params({"dry_multiplier": 1.0, "dry_sequence_breakers": ["x"]}), [1]))
    sampler.update_state(batch.update())
    values = logits(random.Random(0), 2)
    for _ in range(2):
        np.testing.assert_array_equal(applied(sampler, values), values)
    assert caplog.text.count("continues without its samplers") == 2


def test_unseeded_requests_draw_alike_on_every_rank() -> None:
    values = logits(random.Random(0), 20)
    results = []
    for seed in (0, 0, 1):
        sampler = EngineSampler(
            SimpleNamespace(model_config=SimpleNamespace(seed=seed, skip_tokenizer_init=True)), "cpu", False
        )
        batch = Batch()
        for _ in range(20):
            batch.add(FakeRequest(Params({"xtc_probability": 0.5, "xtc_threshold": 0.05}), [1]))
        sampler.update_state(batch.update())
        results.append(applied(sampler, values))
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).any()
    removed = (results[0] != values).any(axis=1)
    assert 0 < np.count_nonzero(removed) < 20, "each request tosses its own coin"
