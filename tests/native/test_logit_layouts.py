"""Whatever the memory layout of the logits, rows give the same tokens and are not written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from tests.native.comparing import (
    NUMPY,
    differences,
    expect_equal,
    halves,
    instruction_sets,
    random_bitmask,
    random_block,
    random_group,
    run,
    times,
)
from tests.random_chains import random_settings


def padded(logits: np.ndarray) -> np.ndarray:
    """A head wider than the vocabulary; the extra columns are not logits of any token."""
    wide = np.full((len(logits), logits.shape[1] + 13), np.nan, logits.dtype)
    wide[:, : logits.shape[1]] = logits
    return wide


def strided(logits: np.ndarray) -> np.ndarray:
    return padded(logits)[:, : logits.shape[1]]


def backwards(logits: np.ndarray) -> np.ndarray:
    return logits[::-1].copy()[::-1]


def every_third(logits: np.ndarray) -> np.ndarray:
    return np.repeat(logits, 3, axis=0)[::3]


def by_columns(logits: np.ndarray) -> np.ndarray:
    return np.asfortranarray(logits)


def unaligned(logits: np.ndarray) -> np.ndarray:
    """Rows that begin at an odd address."""
    memory = np.empty(logits.nbytes + 1, np.uint8)
    memory[1:] = np.frombuffer(logits.tobytes(), np.uint8)
    array = memory[1:].view(logits.dtype).reshape(logits.shape)
    assert not array.flags.aligned
    return array


def aside(logits: np.ndarray) -> np.ndarray:
    """Rows that begin at elements not aligned to vector registers, with odd gaps."""
    memory = np.empty((len(logits), logits.shape[1] + 3), logits.dtype)
    memory[:, 1:-2] = logits
    return memory[:, 1:-2]


def locked(logits: np.ndarray) -> np.ndarray:
    array = logits.copy()
    array.flags.writeable = False
    return array


LAYOUTS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "padded": padded,
    "strided": strided,
    "backwards": backwards,
    "every third row": every_third,
    "by columns": by_columns,
    "unaligned": unaligned,
    "aside": aside,
    "locked": locked,
}


def memory_of(array: np.ndarray) -> bytes:
    """The bytes of all that `array` may be a part of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.tobytes()


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_changes_no_bit_and_no_byte(layout: str, dtype: Any) -> None:
    for number in range(times(6)):
        random = np.random.default_rng(number)
        size = (7, 64, 257, 1000)[number % 4]
        chain, rows = random_group(random, size, 9, random_settings(random, size, without=("infill",)))
        block = random_block(random, 9, size)
        plain = block if dtype == np.float32 else halves(block)
        logits = LAYOUTS[layout](plain)
        before = memory_of(logits)
        bitmask = random_bitmask(random, 9, size) if number % 2 else None
        batch = expect_equal(instruction_sets(), chain, rows, logits, bitmask)
        assert memory_of(logits) == before
        assert differences(batch, run(NUMPY, chain, rows, plain, bitmask)) == []


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_one_row_may_serve_as_many(dtype: Any) -> None:
    for number in range(times(8)):
        random = np.random.default_rng(number)
        size = (7, 64, 257, 1000)[number % 4]
        chain, rows = random_group(random, size, 20, random_settings(random, size, without=("infill",)))
        row = halves(random_block(random, 1, size, faults=0)).astype(dtype)
        before = row.tobytes()
        shared = np.broadcast_to(row, (20, size))
        assert shared.strides[0] == 0
        batch = expect_equal(instruction_sets(), chain, rows, shared)
        assert row.tobytes() == before
        assert differences(batch, run(NUMPY, chain, rows, np.repeat(row, 20, axis=0))) == []


def test_rows_may_overlap() -> None:
    random = np.random.default_rng(2)
    line = random.normal(0, 3, 1200).astype(np.float32)
    overlapping = np.lib.stride_tricks.sliding_window_view(line, 1000)[::17]
    chain, rows = random_group(random, 1000, len(overlapping), {"top_k": 20, "repetition_penalty": 1.5})
    before = line.tobytes()
    expect_equal(instruction_sets(), chain, rows, overlapping)
    assert line.tobytes() == before


def test_logits_may_be_in_a_file_that_is_mapped_for_reading(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    plain = random_block(random, 12, 5000)
    plain.tofile(tmp_path / "logits")
    mapped = np.memmap(tmp_path / "logits", np.float32, "r", shape=plain.shape)
    chain, rows = random_group(
        random, 5000, 12, {"logit_bias": {3: 5.0}, "top_p": 0.9, "bad_words": [[7], [8]]}
    )
    batch = expect_equal(instruction_sets(), chain, rows, mapped)
    assert differences(batch, run(NUMPY, chain, rows, plain)) == []
    assert (tmp_path / "logits").read_bytes() == plain.tobytes()


@pytest.mark.parametrize(
    "settings", [{"temperature": 0.7, "top_k": 9}, {"repetition_penalty": 2.0}, {"mirostat": 2}]
)
def test_a_scheduler_may_be_given_another_layout_in_every_step(settings: Mapping[str, Any]) -> None:
    random = np.random.default_rng(4)
    blocks = [random_block(random, 8, 300, faults=0) for _ in LAYOUTS]

    def generate(backend: Any, layouts: Any) -> list[list[int]]:
        scheduler = Scheduler(300, backend=backend)
        for seed in range(8):
            scheduler.add(SamplingParams(seed=seed, **settings), [seed, 2, 3])
        steps = zip(layouts, blocks, strict=True)
        return [scheduler.step(layout(block)).token_ids.tolist() for layout, block in steps]

    expected = generate(NUMPY, [np.copy] * len(blocks))
    for backend in instruction_sets().values():
        assert generate(backend, LAYOUTS.values()) == expected
