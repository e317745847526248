"""float16 and bfloat16 logits give what float32 logits of the same values give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.arithmetic import LogitRows
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

SIZES = (1, 5, 63, 64, 65, 257, 600, 3000)


def brain_floats(logits: np.ndarray) -> LogitRows:
    """bfloat16 rows: the upper halves of float32 `logits` [n, size]."""
    return from_bits((logits.view(np.uint32) >> 16).astype(np.uint16))


def from_bits(bits: np.ndarray) -> LogitRows:
    """bfloat16 rows from their uint16 `bits` [n, size]."""
    return LogitRows.from_bfloat16_bits(bits, bits.shape[1])


def widened(rows: LogitRows | np.ndarray) -> np.ndarray:
    """float32 of the same values."""
    given = LogitRows(rows, rows.array.shape[1] if isinstance(rows, LogitRows) else rows.shape[1])
    return np.stack([given.row(i) for i in range(len(given))])


NARROW: Mapping[str, Callable[[np.ndarray], Any]] = {"float16": halves, "bfloat16": brain_floats}


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("size", SIZES)
def test_narrow_logits_give_what_the_same_values_give_in_float32(size: int, dtype: str) -> None:
    for number in range(times(6)):
        random = np.random.default_rng([size, number])
        without = () if size < 100 else ("infill",)
        chain, rows = random_group(random, size, 20, random_settings(random, size, without=without))
        narrow = NARROW[dtype](random_block(random, 20, size))
        bitmask = random_bitmask(random, 20, size) if number % 3 == 1 else None
        expected = expect_equal(instruction_sets(), chain, rows, narrow, bitmask)
        wide = run(NUMPY, chain, rows, widened(narrow), bitmask)
        assert differences(expected, wide) == []


@pytest.mark.parametrize("dtype", NARROW)
def test_every_pattern_of_sixteen_bits_is_read_as_its_value(dtype: str) -> None:
    patterns = np.arange(2**16, dtype=np.uint16)
    rows = patterns.view(np.float16)[None] if dtype == "float16" else from_bits(patterns[None])
    values = widened(rows)[0]
    usable = ~np.isnan(values) & (values <= 2.0**100)
    chosen = np.random.default_rng(3).permutation(patterns[usable])[None]
    logits = chosen.view(np.float16) if dtype == "float16" else from_bits(chosen)
    chain, requests = random_group(np.random.default_rng(4), chosen.shape[1], 1, {})
    batch = expect_equal(instruction_sets(), chain, requests, logits)
    ids, left = batch.survivors[0]
    given = widened(logits)[0]
    alive = given >= -(2.0**100)
    np.testing.assert_array_equal(ids, np.flatnonzero(alive))
    np.testing.assert_array_equal(left.view(np.int32), given[alive].view(np.int32))


@pytest.mark.parametrize("dtype", NARROW)
def test_every_narrow_pattern_that_is_not_a_logit_is_a_fault(dtype: str) -> None:
    patterns = np.arange(2**16, dtype=np.uint16)
    one = patterns[:, None]
    values = widened(one.view(np.float16) if dtype == "float16" else from_bits(one))[:, 0]
    bad = patterns[np.isnan(values) | (values > 2.0**100)][:: 1 if dtype == "float16" else 7]
    bits = np.zeros((len(bad), 3), np.uint16)
    bits[np.arange(len(bad)), np.arange(len(bad)) % 3] = bad
    logits = bits.view(np.float16) if dtype == "float16" else from_bits(bits)
    chain, rows = random_group(np.random.default_rng(5), 3, len(bad), {"temperature": 0.7})
    batch = expect_equal(instruction_sets(), chain, rows, logits)
    assert all(str(error).startswith("the row's greatest logit is") for error in batch.errors)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("library", ["torch", "ml_dtypes"])
def test_tensors_of_other_libraries_are_read_as_they_are(library: str, dtype: str) -> None:
    module = pytest.importorskip(library)
    wide = np.random.default_rng(1).normal(0, 3, (8, 300)).astype(np.float32)
    if library == "torch":
        narrow = module.from_numpy(wide).to(getattr(module, dtype))
        same = narrow.float().numpy()
    else:
        narrow = wide.astype(np.float16 if dtype == "float16" else module.bfloat16)
        same = narrow.astype(np.float32)
    for backend in instruction_sets().values():
        token_ids = []
        for logits in (narrow, same):
            scheduler = Scheduler(300, backend=backend)
            for seed in range(8):
                scheduler.add(SamplingParams(seed=seed, temperature=1.5, top_p=0.95))
            token_ids.append(scheduler.step(logits).token_ids.tolist())
        assert token_ids[0] == token_ids[1]
