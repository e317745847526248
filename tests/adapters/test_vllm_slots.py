"""The V2 interface: request slots, rows in any order, speculative drafts, by a small copy of the protocol."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine_sampler.adapters.vllm import EngineSampler

from .vllm_protocol import ASKED, VOCAB, Guest, Params, Runner, arriving, logits, tokens

SLOTS = 6


def array_of(library: str) -> Any:
    if library == "numpy":
        return np.array
    torch = pytest.importorskip("torch")
    return lambda values: torch.from_numpy(values.copy())


def applied(sampler: EngineSampler, values: np.ndarray, context: Any, library: str = "numpy") -> np.ndarray:
    given = array_of(library)(values)
    sampler.apply_staged_writes()
    result = sampler.apply(given, context)
    assert result is given
    return np.asarray(result)


def decoding(runner: Runner, slot: int) -> int:
    """The place of the input token of a request that is past its prompt."""
    return int(runner.total_len.np[slot]) - 1


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("number", range(4))
def test_every_row_equals_the_row_alone_behind_random_drafts(number: int, library: str) -> None:
    rng = random.Random(number)
    runner = Runner(SLOTS, array_of(library))
    sampler = EngineSampler(SimpleNamespace(), runner)
    for _ in range(40):
        for slot in range(SLOTS):
            if slot not in runner.guests or rng.random() < 0.1:
                guest = arriving(rng)
                runner.seat(slot, guest)
                assert sampler.add_request(slot, guest.params) is (guest.params.extra_args is not None)
        slots = rng.sample(range(SLOTS), rng.randint(1, SLOTS))
        drafts = {slot: tokens(rng, rng.choice((0, 0, 1, 3))) for slot in slots if runner.has_drawn(slot)}
        drafts = {slot: drafts.get(slot, []) for slot in slots}
        context = runner.context([(slot, decoding(runner, slot), drafts[slot]) for slot in slots])
        values = logits(rng, len(context.pos))
        result = applied(sampler, values, context, library)
        row = 0
        for slot in slots:
            for depth in range(len(drafts[slot]) + 1):
                expected = runner.guests[slot].expected(values[row], drafts[slot][:depth])
                np.testing.assert_array_equal(result[row], expected, f"row {row}, {runner.guests[slot]}")
                row += 1
            accepted = rng.randint(0, len(drafts[slot]))
            runner.commit(slot, [*drafts[slot][:accepted], rng.randrange(6)])


def one(asked: dict[str, Any], prompt: list[int], output: list[int]) -> tuple[EngineSampler, Runner, Guest]:
    """A processor with a request in slot 1 that has drawn `output`."""
    runner = Runner(2)
    sampler = EngineSampler(SimpleNamespace(), runner)
    guest = Guest(Params(asked, seed=5), prompt)
    runner.seat(1, guest)
    sampler.add_request(1, guest.params)
    runner.commit(1, output)
    return sampler, runner, guest


def test_a_slot_forgets_its_former_request() -> None:
    sampler, runner, _ = one(ASKED[0], [1, 2, 1, 2], [1])
    values = logits(random.Random(0), 1)
    applied(sampler, values, runner.context([(1, 4, [])]))
    for guest in (Guest(Params(ASKED[2], seed=6), [3, 3]), Guest(Params(None), [1])):
        runner.seat(1, guest)
        sampler.add_request(1, guest.params)
        result = applied(sampler, values, runner.context([(1, decoding(runner, 1), [])]))
        np.testing.assert_array_equal(result[0], guest.expected(values[0]))


def test_rows_within_a_prompt_in_chunks_are_left_alone() -> None:
    sampler, runner, guest = one(ASKED[5], [1, 2, 3, 1, 2, 3], [])
    values = logits(random.Random(0), 1)
    for place in (1, 4):
        np.testing.assert_array_equal(applied(sampler, values, runner.context([(1, place, [])])), values)
    result = applied(sampler, values, runner.context([(1, 5, [])]))
    np.testing.assert_array_equal(result[0], guest.expected(values[0]))


def test_a_resumed_request_knows_its_prompt_from_its_output() -> None:
    sampler, runner, _ = one(ASKED[0], [1, 2, 1], [])
    guest = Guest(Params({"frequency_penalty": 0.5, "penalty_scope": "output"}), [1, 1, 2], [2, 3, 3])
    runner.seat(1, guest)
    sampler.add_request(1, guest.params)
    values = logits(random.Random(0), 1)
    result = applied(sampler, values, runner.context([(1, 5, [])]))
    np.testing.assert_array_equal(result[0], guest.expected(values[0]))
    assert result[0, 1] == values[0, 1]
    assert result[0, 3] == values[0, 3] - 1


def test_rows_behind_placeholder_drafts_are_left_alone() -> None:
    """The first step behind a prompt whose cache came from elsewhere has draft rows without drafts."""
    sampler, runner, guest = one(ASKED[0], [1, 2, 1, 2], [])
    values = logits(random.Random(0), 3)
    result = applied(sampler, values, runner.context([(1, 3, [-1, -1])]))
    np.testing.assert_array_equal(result[0], guest.expected(values[0]))
    np.testing.assert_array_equal(result[1:], values[1:])


def test_rows_behind_a_draft_that_is_no_token_are_left_alone() -> None:
    sampler, runner, guest = one(ASKED[0], [1, 2, 1], [2, 1])
    values = logits(random.Random(0), 4)
    result = applied(sampler, values, runner.context([(1, 4, [2, VOCAB, 1])]))
    np.testing.assert_array_equal(result[1], guest.expected(values[1], [2]))
    np.testing.assert_array_equal(result[2:], values[2:])
    result = applied(sampler, values[:1], runner.context([(1, 4, [])]))
    np.testing.assert_array_equal(result[0], guest.expected(values[0]))


def test_rows_come_in_parts_of_whole_requests() -> None:
    """A verifier with many rows shows them in several calls."""
    rng = random.Random(2)
    runner = Runner(2)
    sampler = EngineSampler(SimpleNamespace(), runner)
    for slot in range(2):
        runner.seat(slot, Guest(Params(ASKED[slot], seed=slot), tokens(rng, 6)))
        sampler.add_request(slot, runner.guests[slot].params)
        runner.commit(slot, tokens(rng, 2))
    for slot in (1, 0):
        values = logits(rng, 3)
        result = applied(sampler, values, runner.context([(slot, 7, [1, 2])]))
        for row in range(3):
            np.testing.assert_array_equal(
                result[row], runner.guests[slot].expected(values[row], [1, 2][:row])
            )


def test_a_request_that_is_computed_again_from_an_earlier_place_starts_anew() -> None:
    sampler, runner, guest = one(ASKED[0], [1, 2], [1, 2, 1, 2])
    values = logits(random.Random(0), 1)
    applied(sampler, values, runner.context([(1, 5, [])]))
    result = applied(sampler, values, runner.context([(1, 3, [])]))
    del guest.output[2:]
    np.testing.assert_array_equal(result[0], guest.expected(values[0]))


def test_a_step_without_our_requests_reads_nothing() -> None:
    sampler, _, _ = one(ASKED[0], [1], [])
    context = SimpleNamespace(idx_mapping_np=np.array([0]))  # touching any other field would raise
    values = logits(random.Random(0), 1)
    np.testing.assert_array_equal(applied(sampler, values, context), values)


def test_only_rows_that_asked_leave_the_device() -> None:
    runner = Runner(2)
    sampler = EngineSampler(SimpleNamespace(), runner)
    for slot, asked in enumerate((None, ASKED[3])):
        runner.seat(slot, Guest(Params(asked, seed=1), [1, 2]))
        sampler.add_request(slot, runner.guests[slot].params)
    read = []

    class Watched(np.ndarray):
        def __getitem__(self, index: Any) -> Any:
            read.append(index)
            return super().__getitem__(index)

    sampler.apply(logits(random.Random(0), 2).view(Watched), runner.context([(0, 1, []), (1, 1, [])]))
    assert read == [[1]]
