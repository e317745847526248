"""Random steps on the torch backend equal the NumPy backend: every sampler, selector, order, dtype, mask
density and fault, for vocabularies of 1 to 1,500 tokens, and in some steps of three rows up to 151,936."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from counting_device import CountingDevice, OnDevice
from engine_sampler_torch import TorchBackend
from engine_sampler_torch.running import pieces
from torch_chains import HOST_ONLY

from engine_sampler import SamplingParams
from engine_sampler.arithmetic import LogitRows
from engine_sampler.contract import Batch, Chain, Group, Rows
from engine_sampler.for_backends import NumpyBackend
from engine_sampler.testing import packed, times
from tests.random_chains import SAMPLERS, SELECTORS, Random, random_logits, random_rows, random_settings

ROWS = 64
SIZES = (1, 2, 3, 31, 33, 64, 65, 257, 300, 1024, 1025, 1500)
STEPS = 1650
WIDE = (32_000, 131_072, 151_936)
PARTS = 6
DTYPES = ("float32", "float32", "float16", "bfloat16")
FAULTS = (np.nan, np.inf, 2.0**101, -np.inf)

BACKEND, REFERENCE = TorchBackend(), NumpyBackend()


def test_the_run_tries_a_hundred_thousand_rows_and_every_part() -> None:
    assert ROWS * STEPS >= 100_000
    names = set(SAMPLERS) | set(SELECTORS)
    random = np.random.default_rng([0, 0])
    drawn: set[str] = set()
    for _ in range(STEPS // PARTS):
        chain, _ = random_rows(random, SamplingParams(**settings_for(random, 65)), 1, 65)
        drawn |= set(chain.key)
    assert names <= drawn | HOST_ONLY


def settings_for(random: Random, size: int) -> dict[str, Any]:
    settings = random_settings(random, size)
    edges = ({"top_k": size}, {"top_p": 1.0}, {"temperature": 0.0}, {"top_k": 1}, {"min_p": 1.0})
    return settings | edges[random.integers(len(edges))] if random.random() < 0.1 else settings


def logits_for(random: Random, n: int, size: int) -> np.ndarray:
    """float32 [n, ≥ size], a part of whose rows are faulty, tied or mostly removed."""
    logits = random_logits(random, n, size)
    for row in np.flatnonzero(random.random(n) < 0.05).tolist():
        logits[row, random.integers(size)] = FAULTS[random.integers(3)]
    logits[random.random(n) < 0.01] = -np.inf
    logits[random.random(n) < 0.01] = -(2.0**101)
    padding = int(random.integers(3)) * 5
    return np.pad(logits, ((0, 0), (0, padding)), constant_values=99)


def tensor_for(random: Random, logits: np.ndarray) -> torch.Tensor:
    """The logits in some dtype, with some row stride."""
    tensor = torch.from_numpy(logits).to(getattr(torch, DTYPES[random.integers(len(DTYPES))]))
    if random.random() < 0.5:
        tensor = torch.cat([tensor, torch.ones(len(tensor), 3, dtype=tensor.dtype)], 1)[:, :-3]
    return tensor


def mask_for(random: Random, n: int, size: int) -> np.ndarray:
    bits = random.random((n, size)) < random.choice([0.0, 0.01, 0.3, 0.99, 1.0])
    bits[np.arange(n), random.integers(0, size, n)] |= random.random(n) < 0.95
    return packed(bits)


class Step:
    """One random step: two groups of chains on the rows of one batch."""

    def __init__(self, random: Random, size: int, n: int = ROWS) -> None:
        self.size, self.n = size, n
        self.logits = tensor_for(random, logits_for(random, n, size))
        order = random.permutation(n)
        split = int(random.integers(1, n)) if n > 1 and random.random() < 0.3 else n
        self.parts: list[tuple[Chain, Rows, np.ndarray, bool]] = []
        for index in (order[:split], order[split:]):
            if len(index):
                params = SamplingParams(**settings_for(random, size))
                chain, rows = random_rows(random, params, len(index), size)
                self.parts.append((chain, rows, index, bool(random.random() < 0.3)))
        self.mask = mask_for(random, n, size) if any(masked for *_, masked in self.parts) else None
        self.processed = bool(random.random() < 0.5)

    def run(self, backend: Any, logits: Any) -> Batch:
        n = self.n
        batch = Batch(
            LogitRows(logits, self.size),
            [],
            np.full(n, -1, np.int64),
            np.full(n, np.nan),
            [None] * n,
            self.mask,
        )
        for chain, requests, index, masked in self.parts:
            batch.groups = [Group(backend.compile(chain), index, requests, masked, self.processed)]
            batch.cache = {}
            backend.run(batch)
        return batch

    def expect_equal(self, on_device: Batch, right: Batch) -> None:
        where = " | ".join(str(chain) for chain, *_ in self.parts)
        np.testing.assert_array_equal(on_device.token_ids, right.token_ids, err_msg=where)
        np.testing.assert_array_equal(on_device.notes, right.notes, err_msg=where)
        assert on_device.errors == right.errors, where
        if self.processed:
            assert on_device.survivors.keys() == right.survivors.keys(), where
            for row, (ids, logits) in right.survivors.items():
                np.testing.assert_array_equal(on_device.survivors[row][0], ids, err_msg=where)
                bits = (on_device.survivors[row][1] + np.float32(0)).view(np.int32)
                np.testing.assert_array_equal(bits, (logits + np.float32(0)).view(np.int32), err_msg=where)


def steps(part: int, count: int) -> Iterator[Step]:
    random = np.random.default_rng([part, 16])
    for number in range(count):
        yield Step(random, SIZES[number % len(SIZES)])


@pytest.mark.parametrize("part", range(PARTS))
def test_random_steps_equal_the_reference(part: int) -> None:
    for step in steps(part, times(STEPS // PARTS)):
        step.expect_equal(step.run(BACKEND, step.logits), step.run(REFERENCE, step.logits))


def test_random_steps_on_a_device_equal_the_reference() -> None:
    with CountingDevice():
        for step in steps(99, times(60)):
            step.expect_equal(step.run(BACKEND, OnDevice(step.logits)), step.run(REFERENCE, step.logits))


@pytest.mark.parametrize("size", WIDE)
def test_wide_steps_equal_the_reference(size: int) -> None:
    random = np.random.default_rng(size)
    for _ in range(times(5)):
        step = Step(random, size, 3)
        step.expect_equal(step.run(BACKEND, step.logits), step.run(REFERENCE, step.logits))


def test_pieces_give_what_whole_groups_give(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [step.run(BACKEND, step.logits) for step in steps(7, 36)]
    monkeypatch.setattr(pieces, "WORKING_BYTES", 0)
    for step, right in zip(steps(7, 36), whole, strict=True):
        step.expect_equal(step.run(BACKEND, step.logits), right)
