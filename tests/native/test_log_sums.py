"""The library's sums for log-probabilities are accurate to 1e-5, for rows of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.arithmetic import LogitRows, log_sum_exp
from tests.native.comparing import instruction_sets, random_block, times
from tests.native.test_dtypes import NARROW, widened
from tests.native.test_logit_layouts import LAYOUTS


def expect_sums(logits: LogitRows, rows: list[int], plain: np.ndarray) -> None:
    """The sums of `rows` of `logits` are those of float32 `plain` [all rows, vocab] in float64."""
    expected = [log_sum_exp(plain[i]) for i in rows]
    for isa, backend in instruction_sets().items():
        sums = backend.log_sums(logits, rows)
        assert sums is not None, isa
        np.testing.assert_allclose(sums, expected, rtol=1e-6, atol=1e-5, err_msg=isa)


@pytest.mark.parametrize("dtype", ["float32", *NARROW])
@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 257, 5000])
def test_sums_are_those_of_float64(size: int, dtype: str) -> None:
    for number in range(times(5)):
        random = np.random.default_rng([size, number])
        block = random_block(random, 30, size, faults=0)
        given: Any = NARROW[dtype](block) if dtype in NARROW else block
        rows = random.permutation(30)[:20].tolist()
        plain = widened(given)
        rows = [i for i in rows if np.abs(plain[i].max()) <= 2.0**100]
        expect_sums(LogitRows(given, size), rows, plain)


@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - {"unaligned"}))
def test_sums_do_not_depend_on_the_layout(layout: str) -> None:
    plain = random_block(np.random.default_rng(1), 12, 300, faults=0)
    expect_sums(LogitRows(LAYOUTS[layout](plain), 300), [0, 3, 3, 11], plain)


def test_reported_logprobs_are_those_of_numpy() -> None:
    logits = np.random.default_rng(2).normal(0, 4, (16, 700)).astype(np.float32)
    reported = []
    for backend in ("numpy", *instruction_sets().values()):
        scheduler = Scheduler(700, backend=backend)
        for seed in range(16):
            scheduler.add(SamplingParams(seed=seed, top_k=50, logprobs=3))
        reported.append(scheduler.step(logits).logprobs)
    for table in reported[1:]:
        np.testing.assert_array_equal(table.token_ids, reported[0].token_ids)
        np.testing.assert_array_equal(table.ranks, reported[0].ranks)
        np.testing.assert_allclose(table.logprobs, reported[0].logprobs, atol=1e-5)
