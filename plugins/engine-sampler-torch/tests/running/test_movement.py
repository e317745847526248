"""What a step moves: counted on a device that counts, and held to a budget."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from counting_device import DEVICE, CountingDevice, OnDevice
from engine_sampler_torch.backend import is_exact
from engine_sampler_torch.running import pieces
from host_sampler import SecondBest

from engine_sampler import SamplingParams, Scheduler, StepResult, Tokenizer, logprobs
from engine_sampler.contract import hookimpl
from tests.engines import registered, registered_plugin

ROWS, VOCAB = 64, 131072
DEFAULT = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
LOGITS = np.random.default_rng(5).normal(0, 3, (ROWS, VOCAB)).astype(np.float32)
KB = 1024


class SecondBestAndObserver:
    """A plugin that also notes how many rows ran on the host."""

    def __init__(self, seen: list[Any]) -> None:
        self._seen = seen

    @hookimpl
    def register_samplers(self, register: Any) -> None:
        register(SecondBest())

    @hookimpl
    def register_observers(self, register: Any) -> None:
        note = SimpleNamespace(name="note", rows_on_host=lambda *values: self._seen.append(values))
        register(note)


@pytest.fixture
def device() -> Iterator[CountingDevice]:
    with CountingDevice() as device:
        assert is_exact(str(DEVICE))  # tried once in a process, with copies of its own
        device.reset()
        yield device


def scheduler_of(backend: str, settings: dict[str, Any], rows: int, **options: Any) -> Scheduler:
    scheduler = Scheduler(VOCAB, backend=backend, **options)
    for seed in range(rows):
        scheduler.add(SamplingParams(seed=seed, **settings), [1, 2, 3, seed % 7])
    return scheduler


def steps(
    device: CountingDevice, settings: dict[str, Any], rows: int = ROWS, count: int = 3, **options: Any
) -> tuple[list[StepResult], Scheduler]:
    """The results of some steps on the device, the last of which is counted, beside those of the host."""
    scheduler, host = (scheduler_of(b, settings, rows, **options) for b in ("auto", "native"))
    logits = LOGITS[:rows]
    there = device.place(torch.from_numpy(logits))
    results = []
    for _ in range(count):
        device.reset()
        results.append(scheduler.step(there))
        assert results[-1].token_ids.tolist() == host.step(logits).token_ids.tolist()
    assert scheduler.backend is not None
    assert scheduler.backend.name == "torch"
    return results, scheduler


def test_the_default_chain_moves_a_few_kilobytes_and_waits_once(device: CountingDevice) -> None:
    _, scheduler = steps(device, DEFAULT)
    assert (device.copies_up, device.copies_down, device.synchronisations) == (1, 1, 1)
    assert device.up == 8 * ROWS  # random numbers
    assert device.down <= 2 * KB
    scheduler.remove(scheduler.request_ids[5])
    there = device.place(torch.from_numpy(LOGITS[1:]))
    device.reset()
    scheduler.step(there)
    assert (device.copies_up, device.copies_down, device.synchronisations) == (2, 1, 1)
    assert device.up <= 5 * KB


def test_greedy_requests_need_nothing_but_their_logits(device: CountingDevice) -> None:
    steps(device, {"temperature": 0.0})
    assert (device.up, device.synchronisations) == (0, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_stay_on_the_device_too(device: CountingDevice, dtype: torch.dtype) -> None:
    cut = torch.from_numpy(LOGITS[:8]).to(dtype)
    there = device.place(cut)
    scheduler, host = (scheduler_of(backend, DEFAULT, 8) for backend in ("auto", "native"))
    scheduler.step(there), host.step(cut)
    device.reset()
    assert scheduler.step(there).token_ids.tolist() == host.step(cut).token_ids.tolist()
    assert device.synchronisations == 1
    assert device.down <= KB


def test_tokens_stay_on_the_device_for_the_next_forward_pass(device: CountingDevice) -> None:
    (*_, last), _ = steps(device, DEFAULT)
    assert isinstance(last.token_ids_on_device, OnDevice)
    assert last.token_ids_on_device.data_there.tolist() == last.token_ids.tolist()


def test_a_longer_generation_needs_no_more_than_a_short_one(device: CountingDevice) -> None:
    steps(device, DEFAULT, rows=4, count=2)
    first = device.up, device.down, device.synchronisations
    steps(device, DEFAULT, rows=4, count=40)
    assert (device.up, device.down, device.synchronisations) == first


def test_penalties_travel_as_sparse_edits(device: CountingDevice) -> None:
    steps(device, {**DEFAULT, "repetition_penalty": 1.2, "dry_multiplier": 0.8, "logit_bias": {5: 2.0}})
    assert device.synchronisations == 1
    assert device.up <= 40 * KB
    assert device.down <= 3 * KB


def test_logprobs_are_computed_there(device: CountingDevice) -> None:
    modes = ["raw", "penalized", "processed"]
    settings = {**DEFAULT, "repetition_penalty": 1.2, "logprobs": 5, "logprobs_mode": modes}
    (*_, last), _ = steps(device, settings, rows=16)
    host = scheduler_of("native", settings, 16)
    for _ in range(3):
        right = host.step(LOGITS[:16])
    for mode in modes:
        found, expected = (result.logprobs.modes[mode] for result in (last, right))
        np.testing.assert_array_equal(found.token_ids, expected.token_ids)
        np.testing.assert_array_equal(found.logprobs, expected.logprobs)
        np.testing.assert_array_equal(found.ranks, expected.ranks)
    assert device.synchronisations == 1
    assert device.down <= 10 * KB


def test_masks_are_copied_while_the_forward_pass_runs(device: CountingDevice) -> None:
    tokenizer = Tokenizer([b"%d " % i for i in range(VOCAB - 1)] + [b"</s>"], [VOCAB - 1])
    settings = {**DEFAULT, "regex": "([0-4]+ )*"}
    scheduler = scheduler_of("auto", settings, 8, tokenizer=tokenizer)
    host = scheduler_of("native", settings, 8, tokenizer=tokenizer)
    there = device.place(torch.from_numpy(LOGITS[:8]))
    mask = 8 * VOCAB // 8
    for _ in range(3):
        device.reset()
        result = scheduler.step(there)
        assert device.synchronisations == 1
        assert result.errors == [None] * 8
        assert result.token_ids.tolist() == host.step(LOGITS[:8]).token_ids.tolist()
        assert mask <= device.up <= mask + 5 * KB
    for _ in range(2):
        device.reset()
        scheduler.prepare()
        assert (device.up, device.synchronisations) == (mask, 0)
        scheduler.step(there)
        assert device.up <= mask + 5 * KB
        assert device.synchronisations == 1


def test_a_sampler_of_the_host_gets_survivors_and_no_rows(device: CountingDevice) -> None:
    seen: list[Any] = []
    with registered_plugin(SecondBestAndObserver(seen)):
        (*_, last), _ = steps(device, {**DEFAULT, "second_best": True})
    assert device.synchronisations == 1
    assert device.down <= ROWS * 64 * (4 + 8) + 2 * KB
    assert last.token_ids_on_device is None
    assert ("torch", ROWS, "unsupported") in seen


def test_a_row_with_many_survivors_for_the_host_needs_a_second_copy(device: CountingDevice) -> None:
    with registered(SecondBest()):
        steps(device, {"top_p": 0.999, "temperature": 3.0, "second_best": True}, rows=4)
    assert device.synchronisations == 2
    assert device.down <= 4 * VOCAB * 4 + 4 * 1024 * (4 + 8) + KB


def test_a_chain_that_begins_on_the_host_takes_its_rows_there(device: CountingDevice) -> None:
    with registered(SecondBest()):
        steps(device, {"temperature": 0.9, "second_best": True}, rows=4)
    assert device.down <= LOGITS[:4].nbytes + KB


def test_process_leaves_rows_there(device: CountingDevice) -> None:
    scheduler, host = (scheduler_of(backend, DEFAULT, 8) for backend in ("auto", "numpy"))
    found = scheduler.process(device.place(torch.from_numpy(LOGITS[:8])), on_device=True)
    assert isinstance(found, OnDevice)
    assert (device.copies_up, device.copies_down, device.synchronisations) == (1, 1, 1)
    assert device.down <= KB
    np.testing.assert_array_equal(found.data_there.numpy(), host.process(LOGITS[:8]))


def test_logprobs_of_a_prompt_are_computed_there(device: CountingDevice) -> None:
    tokens = np.arange(ROWS)
    found, right = (logprobs(rows, tokens, 3) for rows in (device.place(torch.from_numpy(LOGITS)), LOGITS))
    np.testing.assert_array_equal(found.logprobs, right.logprobs)
    np.testing.assert_array_equal(found.token_ids, right.token_ids)
    np.testing.assert_array_equal(found.ranks, right.ranks)
    assert device.down <= 8 * KB


def test_rows_are_worked_on_in_pieces_of_bounded_size(
    device: CountingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "WORKING_BYTES", 0)
    steps(device, {"top_p": 0.9, "repetition_penalty": 1.2}, rows=24, count=2)
    assert device.most_bytes <= LOGITS[:24].nbytes
    assert device.synchronisations == 1
