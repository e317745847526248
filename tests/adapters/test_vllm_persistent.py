"""The V1 interface: a persistent batch of rows, by a small copy of the published protocol."""

from __future__ import annotations

import logging
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine_sampler.adapters.vllm import EngineSampler

from .vllm_protocol import ASKED, VOCAB, Batch, Direction, Guest, Params, arriving, logits, tokens


def processor() -> EngineSampler:
    return EngineSampler(SimpleNamespace(), "cpu", False)


def applied(sampler: EngineSampler, values: np.ndarray, library: str = "numpy") -> np.ndarray:
    """`values` after the processor, which must have written into what it got."""
    given: Any = values.copy()
    if library == "torch":
        import torch

        given = torch.from_numpy(given)
    result = sampler.apply(given)
    assert result is given
    return np.asarray(result)


def check(sampler: EngineSampler, batch: Batch, values: np.ndarray, library: str = "numpy") -> None:
    result = applied(sampler, values, library)
    for row, guest in enumerate(batch.rows):
        assert guest is not None
        np.testing.assert_array_equal(result[row], guest.expected(values[row]), f"row {row}: {guest}")


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("number", range(4))
def test_every_row_equals_the_row_alone_in_random_batches(number: int, library: str) -> None:
    if library == "torch":
        pytest.importorskip("torch")
    rng = random.Random(number)
    sampler, batch = processor(), Batch()
    for _ in range(40):
        for row in range(len(batch.rows)):
            if rng.random() < 0.15:
                batch.remove(row)
        for _ in range(rng.choice((0, 0, 1, 2)) if batch.rows else 3):
            batch.add(arriving(rng, may_lack_prompt=True))
        batch.condense()
        if len(batch.rows) > 1 and rng.random() < 0.3:
            batch.swap(*rng.sample(range(len(batch.rows)), 2))
        sampler.update_state(batch.update())
        if batch.rows:
            check(sampler, batch, logits(rng, len(batch.rows)), library)
        for guest in batch.rows:
            assert guest is not None
            guest.output += tokens(rng, rng.choice((1, 1, 1, 2)))


def test_a_row_without_our_keys_is_not_touched() -> None:
    sampler, batch = processor(), Batch()
    batch.add(Guest(Params(None), [1]))
    batch.add(Guest(Params({"other": 3}), [1]))
    sampler.update_state(batch.update())
    values = logits(random.Random(0), 2)
    np.testing.assert_array_equal(applied(sampler, values), values)


def test_an_arrival_drives_out_who_was_in_its_row() -> None:
    sampler = processor()
    old = Guest(Params(ASKED[0], seed=1), [1, 2, 1])
    for guest in (old, Guest(Params(ASKED[3], seed=2), [3])):
        sampler.update_state(
            SimpleNamespace(removed=[], added=[(0, guest.params, guest.prompt, guest.output)], moved=[])
        )
        values = logits(random.Random(0), 1)
        np.testing.assert_array_equal(applied(sampler, values)[0], guest.expected(values[0]))
    leaves = SimpleNamespace(removed=[], added=[(0, Params(None), [1], [])], moved=[])
    sampler.update_state(leaves)
    np.testing.assert_array_equal(applied(sampler, values), values)


def test_a_move_onto_another_row_ends_that_one_and_a_swap_with_an_empty_row_is_a_move() -> None:
    sampler = processor()
    guests = [Guest(Params(ASKED[i], seed=i), [1, 2, 1, 2, i]) for i in range(2)]
    added = [(i, g.params, g.prompt, g.output) for i, g in enumerate(guests)]
    moves = [(1, 0, Direction.UNIDIRECTIONAL), (0, 2, Direction.SWAP)]
    sampler.update_state(SimpleNamespace(removed=[], added=added, moved=moves))
    values = logits(random.Random(0), 3)
    result = applied(sampler, values)
    np.testing.assert_array_equal(result[:2], values[:2])
    np.testing.assert_array_equal(result[2], guests[1].expected(values[2]))


def test_placeholders_of_tokens_to_come_are_no_history() -> None:
    sampler, batch = processor(), Batch()
    guest = Guest(Params(ASKED[5], seed=1), [1, 2], [3, -1])
    batch.add(guest)
    sampler.update_state(batch.update())
    for output in ([3, -1], [3, 4, -1, -1], [3, 4, 5, 3]):
        guest.output[:] = output
        values = logits(random.Random(0), 1)
        result = applied(sampler, values)
        guest.output[:] = [token for token in output if token >= 0]
        np.testing.assert_array_equal(result[0], guest.expected(values[0]))


def test_tokens_that_vllm_takes_back_leave_the_history() -> None:
    sampler, batch = processor(), Batch()
    guest = Guest(Params(ASKED[0], seed=1), [1, 2, 3], [1, 2, 3, 1])
    batch.add(guest)
    sampler.update_state(batch.update())
    check(sampler, batch, logits(random.Random(0), 1))
    del guest.output[2:]
    check(sampler, batch, logits(random.Random(1), 1))


def test_ids_outside_the_vocabulary_are_left_out() -> None:
    sampler, batch = processor(), Batch()
    batch.add(Guest(Params({"repetition_penalty": 2.0}), [1, VOCAB + 5, -3, 2], [1]))
    sampler.update_state(batch.update())
    values = logits(random.Random(0), 1)
    alone = Guest(Params({"repetition_penalty": 2.0}), [1, 2], [1])
    np.testing.assert_array_equal(applied(sampler, values)[0], alone.expected(values[0]))


def test_masked_tokens_stay_masked() -> None:
    for asked in ASKED:
        sampler, batch = processor(), Batch()
        batch.add(Guest(Params(asked, seed=3), [1, 2, 1], [2]))
        sampler.update_state(batch.update())
        values = np.full((1, VOCAB), -np.inf, np.float32)
        values[0, [1, 2, 5]] = 1.0, 2.0, -3.0
        result = applied(sampler, values)[0]
        assert set(np.flatnonzero(result > -np.inf)) <= {1, 2, 5}, asked
        assert result.max() > -np.inf, asked


@pytest.mark.parametrize("fault", [np.nan, np.inf])
def test_a_row_at_fault_stays_as_it_came(fault: float, caplog: pytest.LogCaptureFixture) -> None:
    sampler, batch = processor(), Batch()
    for asked in (ASKED[0], ASKED[3]):
        batch.add(Guest(Params(asked, seed=3), [1, 2]))
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


def test_a_chain_that_would_leave_nothing_leaves_the_row_to_the_grammar() -> None:
    sampler, batch = processor(), Batch()
    batch.add(Guest(Params({"no_repeat_ngram_size": 1}), [4]))
    sampler.update_state(batch.update())
    values = np.full((1, VOCAB), -np.inf, np.float32)
    values[0, 4] = 1.0
    np.testing.assert_array_equal(applied(sampler, values), values)


def test_parameters_that_do_not_fit_the_vocabulary_are_logged_and_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sampler, batch = processor(), Batch()
    batch.add(Guest(Params({"dry_multiplier": 1.0, "dry_sequence_breakers": [VOCAB]}), [1]))
    batch.add(Guest(Params({"dry_multiplier": 1.0, "dry_sequence_breakers": ["x"]}), [1]))
    sampler.update_state(batch.update())
    values = logits(random.Random(0), 2)
    for _ in range(2):
        np.testing.assert_array_equal(applied(sampler, values), values)
    assert caplog.text.count("goes on without its samplers") == 2


def test_unseeded_requests_draw_alike_on_every_rank() -> None:
    values = logits(random.Random(0), 20)
    results = []
    for seed in (0, 0, 1):
        sampler = EngineSampler(
            SimpleNamespace(model_config=SimpleNamespace(seed=seed, skip_tokenizer_init=True)), "cpu", False
        )
        batch = Batch()
        for _ in range(20):
            batch.add(Guest(Params({"xtc_probability": 0.5, "xtc_threshold": 0.05}), [1]))
        sampler.update_state(batch.update())
        results.append(applied(sampler, values))
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).any()
    removed = (results[0] != values).any(axis=1)
    assert 0 < np.count_nonzero(removed) < 20, "each request tosses a coin of its own"
