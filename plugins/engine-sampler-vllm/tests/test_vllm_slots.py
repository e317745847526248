"""The V2 interface: request slots, rows in any order, speculative drafts; with a copy of the protocol."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_sampler_vllm.logits_processor import EngineSampler
from vllm_protocol import EXTRA_ARGS, VOCAB, FakeRequest, Params, Runner, logits, new_request, tokens

SLOTS = 6


def array_of(library: str) -> Any:
    if library == "numpy":
        return np.array
    torch = pytest.importorskip("torch")
    return lambda values: torch.from_numpy(values.copy())


def applied(sampler: EngineSampler, values: np.ndarray, context: Any, library: str = "numpy") -> np.ndarray:
    array = array_of(library)(values)
    sampler.apply_staged_writes()
    result = sampler.apply(array, context)
    assert result is array
    return np.asarray(result)


def decode_position(runner: Runner, slot: int) -> int:
    """The position of the input token of a request that is past its prompt."""
    return int(runner.total_len.np[slot]) - 1


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("number", range(4))
def test_every_row_equals_its_single_row_result_after_random_drafts(number: int, library: str) -> None:
    rng = random.Random(number)
    runner = Runner(SLOTS, array_of(library))
    sampler = EngineSampler(SimpleNamespace(), runner)
    for _ in range(40):
        for slot in range(SLOTS):
            if slot not in runner.requests or rng.random() < 0.1:
                request = new_request(rng)
                runner.assign(slot, request)
                assert sampler.add_request(slot, request.params) is (request.params.extra_args is not None)
        slots = rng.sample(range(SLOTS), rng.randint(1, SLOTS))
        drafts = {slot: tokens(rng, rng.choice((0, 0, 1, 3))) for slot in slots if runner.has_drawn(slot)}
        drafts = {slot: drafts.get(slot, []) for slot in slots}
        context = runner.context([(slot, decode_position(runner, slot), drafts[slot]) for slot in slots])
        values = logits(rng, len(context.pos))
        result = applied(sampler, values, context, library)
        row = 0
        for slot in slots:
            for depth in range(len(drafts[slot]) + 1):
                expected = runner.requests[slot].expected(values[row], drafts[slot][:depth])
                np.testing.assert_array_equal(result[row], expected, f"row {row}, {runner.requests[slot]}")
                row += 1
            accepted = rng.randint(0, len(drafts[slot]))
            runner.commit(slot, [*drafts[slot][:accepted], rng.randrange(6)])


def started(
    extra_args: dict[str, Any], prompt: list[int], output: list[int]
) -> tuple[EngineSampler, Runner, FakeRequest]:
    """A processor with a request in slot 1 that has drawn `output`."""
    runner = Runner(2)
    sampler = EngineSampler(SimpleNamespace(), runner)
    request = FakeRequest(Params(extra_args, seed=5), prompt)
    runner.assign(1, request)
    sampler.add_request(1, request.params)
    runner.commit(1, output)
    return sampler, runner, request


def test_a_slot_forgets_its_previous_request() -> None:
    sampler, runner, _ = started(EXTRA_ARGS[0], [1, 2, 1, 2], [1])
    values = logits(random.Random(0), 1)
    applied(sampler, values, runner.context([(1, 4, [])]))
    for request in (FakeRequest(Params(EXTRA_ARGS[2], seed=6), [3, 3]), FakeRequest(Params(None), [1])):
        runner.assign(1, request)
        sampler.add_request(1, request.params)
        result = applied(sampler, values, runner.context([(1, decode_position(runner, 1), [])]))
        np.testing.assert_array_equal(result[0], request.expected(values[0]))


def test_rows_within_a_chunked_prompt_are_unchanged() -> None:
    sampler, runner, request = started(EXTRA_ARGS[5], [1, 2, 3, 1, 2, 3], [])
    values = logits(random.Random(0), 1)
    for position in (1, 4):
        np.testing.assert_array_equal(applied(sampler, values, runner.context([(1, position, [])])), values)
    result = applied(sampler, values, runner.context([(1, 5, [])]))
    np.testing.assert_array_equal(result[0], request.expected(values[0]))


def test_a_resumed_request_separates_its_prompt_from_its_output() -> None:
    sampler, runner, _ = started(EXTRA_ARGS[0], [1, 2, 1], [])
    request = FakeRequest(Params({"frequency_penalty": 0.5, "penalty_scope": "output"}), [1, 1, 2], [2, 3, 3])
    runner.assign(1, request)
    sampler.add_request(1, request.params)
    values = logits(random.Random(0), 1)
    result = applied(sampler, values, runner.context([(1, 5, [])]))
    np.testing.assert_array_equal(result[0], request.expected(values[0]))
    assert result[0, 1] == values[0, 1]
    assert result[0, 3] == values[0, 3] - 1


def test_rows_after_placeholder_drafts_are_unchanged() -> None:
    """The first step after a prompt whose cache came from elsewhere has draft rows without drafts."""
    sampler, runner, request = started(EXTRA_ARGS[0], [1, 2, 1, 2], [])
    values = logits(random.Random(0), 3)
    result = applied(sampler, values, runner.context([(1, 3, [-1, -1])]))
    np.testing.assert_array_equal(result[0], request.expected(values[0]))
    np.testing.assert_array_equal(result[1:], values[1:])


def test_rows_after_a_draft_that_is_not_a_token_are_unchanged() -> None:
    sampler, runner, request = started(EXTRA_ARGS[0], [1, 2, 1], [2, 1])
    values = logits(random.Random(0), 4)
    result = applied(sampler, values, runner.context([(1, 4, [2, VOCAB, 1])]))
    np.testing.assert_array_equal(result[1], request.expected(values[1], [2]))
    np.testing.assert_array_equal(result[2:], values[2:])
    result = applied(sampler, values[:1], runner.context([(1, 4, [])]))
    np.testing.assert_array_equal(result[0], request.expected(values[0]))


def test_rows_may_come_in_several_calls_of_whole_requests() -> None:
    """A verifier with many rows passes them in several calls."""
    rng = random.Random(2)
    runner = Runner(2)
    sampler = EngineSampler(SimpleNamespace(), runner)
    for slot in range(2):
        runner.assign(slot, FakeRequest(Params(EXTRA_ARGS[slot], seed=slot), tokens(rng, 6)))
        sampler.add_request(slot, runner.requests[slot].params)
        runner.commit(slot, tokens(rng, 2))
    for slot in (1, 0):
        values = logits(rng, 3)
        result = applied(sampler, values, runner.context([(slot, 7, [1, 2])]))
        for row in range(3):
            np.testing.assert_array_equal(
                result[row], runner.requests[slot].expected(values[row], [1, 2][:row])
            )


def test_a_request_that_is_recomputed_from_an_earlier_position_restarts() -> None:
    sampler, runner, request = started(EXTRA_ARGS[0], [1, 2], [1, 2, 1, 2])
    values = logits(random.Random(0), 1)
    applied(sampler, values, runner.context([(1, 5, [])]))
    result = applied(sampler, values, runner.context([(1, 3, [])]))
    del request.output[2:]
    np.testing.assert_array_equal(result[0], request.expected(values[0]))


def test_a_step_without_our_requests_reads_nothing() -> None:
    sampler, _, _ = started(EXTRA_ARGS[0], [1], [])
    context = SimpleNamespace(idx_mapping_np=np.array([0]))  # touching any other field would raise
    values = logits(random.Random(0), 1)
    np.testing.assert_array_equal(applied(sampler, values, context), values)


def test_only_rows_with_our_keys_are_copied_from_the_device() -> None:
    runner = Runner(2)
    sampler = EngineSampler(SimpleNamespace(), runner)
    for slot, extra_args in enumerate((None, EXTRA_ARGS[3])):
        runner.assign(slot, FakeRequest(Params(extra_args, seed=1), [1, 2]))
        sampler.add_request(slot, runner.requests[slot].params)
    read = []

    class Watched(np.ndarray):
        def __getitem__(self, index: Any) -> Any:
            read.append(index)
            return super().__getitem__(index)

    sampler.apply(logits(random.Random(0), 2).view(Watched), runner.context([(0, 1, []), (1, 1, [])]))
    assert read == [[1]]
