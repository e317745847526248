"""Whole schedulers that draw with CANN's operators on the simulated chip: reproducible, and fair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ascend_arrays import NpuArray
from ascend_building import vendor_library
from ascend_harness import FORMS, Chip, as_elements
from engine_sampler_ascend import AscendBackend
from engine_sampler_ascend.on_device.draws import draw

from engine_sampler import SamplingParams, Scheduler

VOCAB = 512
LOST, NO_MEMORY = 507018, 207001
MIXTURE: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 0.8, "top_k": 40, "order": "vllm"},
    {"temperature": 1.2, "top_p": 0.9, "min_p": 0.02, "order": "vllm"},
    {"top_k": 20, "top_p": 0.8, "temperature": 0.7, "order": "llama.cpp"},
    {"repetition_penalty": 1.2, "top_k": 5},
    {"mirostat": 2},
)


@pytest.fixture
def backend(chip: Chip) -> AscendBackend:
    return AscendBackend("ascend_operators", library=vendor_library())


def tokens_of(
    backend: Any, chip: Chip, steps: int = 3, form: str = "float32", rows: Any = None
) -> list[list[int]]:
    """The tokens of a scheduler's steps; `rows` are those of the mixture that take part, all by default."""
    which = list(range(len(MIXTURE))) if rows is None else rows
    scheduler = Scheduler(VOCAB, backend=backend)
    for i in which:
        scheduler.add(SamplingParams(seed=i, **MIXTURE[i]), [1, 2, 3])
    tokens = []
    for number in range(steps):
        logits = np.random.default_rng(number).normal(0, 3, (len(MIXTURE), VOCAB)).astype(np.float32)
        array = NpuArray(chip, as_elements(logits[which], form))
        result = scheduler.step(array)
        array.free()
        assert result.errors == [None] * len(which)
        tokens.append(result.token_ids.tolist())
    return tokens


@pytest.mark.parametrize("form", FORMS)
def test_the_same_seeds_draw_the_same_tokens(chip: Chip, backend: AscendBackend, form: str) -> None:
    first, again = (tokens_of(backend, chip, form=form) for _ in range(2))
    assert first == again
    assert all(0 <= token < VOCAB for step in first for token in step)
    assert chip.calls("aclnnTopKTopPSampleV2") > 0
    assert chip.calls("aclnnArgMax") > 0
    assert chip.calls("aclnnApplyTopKTopP") > 0
    assert chip.misuse() == ""


def test_a_row_is_drawn_alike_alone_and_among_others(chip: Chip, backend: AscendBackend) -> None:
    together = tokens_of(backend, chip)
    for row in range(len(MIXTURE)):
        alone = tokens_of(backend, chip, rows=[row])
        assert [step[row] for step in together] == [step[0] for step in alone]


def test_draws_follow_the_softmax(chip: Chip, backend: AscendBackend) -> None:
    arrays: list[NpuArray] = []

    def place(logits: np.ndarray) -> NpuArray:
        arrays.append(NpuArray(chip, logits))
        return arrays[-1]

    found = draw(backend, place, 600, VOCAB)
    assert found["passed"], found
    for array in arrays:
        array.free()


def test_tokens_are_left_on_the_device(chip: Chip, backend: AscendBackend) -> None:
    scheduler = Scheduler(VOCAB, backend=backend)
    for seed in range(4):
        scheduler.add(SamplingParams(seed=seed, top_k=30, order="vllm"), [1])
    array = NpuArray(chip, np.random.default_rng(3).normal(0, 3, (4, VOCAB)).astype(np.float32))
    begun = scheduler.begin(array)
    on_device = begun.token_ids_on_device
    assert on_device.shape == (4,)
    result = begun.finish()
    block = on_device._block.pointer
    address = int(str(block).rpartition(" ")[2].rstrip(">"), 16)
    assert chip.download(address, (4,), np.int64).tolist() == result.token_ids.tolist()
    array.free()


@pytest.mark.parametrize("code", [LOST, NO_MEMORY])
@pytest.mark.parametrize(
    "function", ["aclnnTopKTopPSampleV2", "aclnnMulGetWorkspaceSize", "aclrtSynchronizeEvent"]
)
def test_no_row_is_lost_when_an_operator_fails(
    chip: Chip, backend: AscendBackend, function: str, code: int
) -> None:
    chip.fail(function, code)
    assert all(0 <= token < VOCAB for step in tokens_of(backend, chip) for token in step)
    assert chip.misuse() == ""
