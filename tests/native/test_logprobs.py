"""Logprobs from the library are those of NumPy, bit for bit: of every kind, for every form of a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import RequestLimits, SamplingParams, Scheduler
from engine_sampler.arithmetic import LogitRows, Logprobs, log_total
from engine_sampler.backends.library.binding import Library
from engine_sampler.backends.library.header import contract
from engine_sampler.backends.library.tensor import Tensor
from engine_sampler.base.packaged import library_path
from engine_sampler.scheduler.logprobs import LogprobsCollector
from tests.native.comparing import instruction_sets, random_block, times
from tests.native.test_dtypes import NARROW

MODES = ("raw", "penalized", "processed")
CHAINS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.7},
    {"temperature": 0.0},
    {"top_k": 40, "top_p": 0.9},
    {"mirostat": 1},
    {"mirostat": 2},
    {"adaptive_target": 0.5},
    {"min_p": 0.2, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    {"typical_p": 0.8},
    {"repetition_penalty": 1.3, "frequency_penalty": 0.5, "temperature": 1.5},
    {"temperature": 0.0, "logit_bias": {2: 50.0}, "bad_words": [[3]]},
    {"allowed_token_ids": [0, 3, 7, 9, 11]},
)
SIZES = (13, 40, 257, 300, 5000)


def expect_equal(found: Any, expected: Any) -> None:
    tables = found if isinstance(found, dict) else {"": found}
    others = expected if isinstance(expected, dict) else {"": expected}
    assert tables.keys() == others.keys()
    for name, table in tables.items():
        assert isinstance(table, Logprobs)
        np.testing.assert_array_equal(table.token_ids, others[name].token_ids)
        np.testing.assert_array_equal(table.ranks, others[name].ranks)
        assert table.logprobs.tobytes() == others[name].logprobs.tobytes()


def logits_of(size: int, number: int) -> np.ndarray:
    random = np.random.default_rng([size, number])
    block = (random.normal(size=(len(CHAINS), size)) * random.choice([0.5, 3, 12])).astype(np.float32)
    block[::2] = np.round(block[::2])  # ties
    block[3, 1:9], block[5, 4] = -np.inf, -1e35
    return block


@pytest.fixture
def completions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that the host has completed."""
    rows: list[int] = []
    complete = LogprobsCollector.complete
    monkeypatch.setattr(
        LogprobsCollector, "complete", lambda self, *a: rows.append(a[1]) or complete(self, *a)
    )
    return rows


def step(
    backend: Any, logits: Any, top_n: int, mode: Any, *, size: int | None = None, drafts: bool = False
) -> Any:
    scheduler = Scheduler(size or logits.shape[1], backend=backend, limits=RequestLimits(logprobs=None))
    for seed, settings in enumerate(CHAINS):
        params = SamplingParams(seed=seed, logprobs=top_n, logprobs_mode=mode, **settings)
        scheduler.add(params, [1, 2, 1, 2, 3])
    if not drafts:
        return scheduler.step(logits)
    return scheduler.step(np.repeat(logits, 2, axis=0), draft_token_ids=[[1]] * len(CHAINS))


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("top_n", [0, 1, 6, 290, -1])
@pytest.mark.parametrize("mode", [*MODES, MODES])
def test_logprobs_equal_those_of_numpy(top_n: int, mode: Any, completions: list[int]) -> None:
    for size in SIZES:
        for number in range(times(1)):
            logits = logits_of(size, number)
            expected = step("numpy", logits, top_n, mode)
            del completions[:]
            for backend in instruction_sets().values():
                found = step(backend, logits, top_n, mode)
                np.testing.assert_array_equal(found.token_ids, expected.token_ids)
                expect_equal(found.logprobs, expected.logprobs)
            assert not completions


@pytest.mark.parametrize("dtype", sorted(NARROW))
def test_logprobs_of_narrow_logits_equal_those_of_numpy(dtype: str) -> None:
    logits = NARROW[dtype](logits_of(300, 1))
    expected = step("numpy", logits, 4, MODES, size=300)
    for backend in instruction_sets().values():
        expect_equal(step(backend, logits, 4, MODES, size=300).logprobs, expected.logprobs)


def test_logprobs_of_drafts_equal_those_of_numpy() -> None:
    logits = logits_of(300, 2)
    expected = step("numpy", logits, 3, "processed", drafts=True)
    for backend in instruction_sets().values():
        expect_equal(step(backend, logits, 3, "processed", drafts=True).logprobs, expected.logprobs)


def test_requests_of_one_batch_may_need_different_kinds_or_none() -> None:
    tables = []
    for backend in ("numpy", *instruction_sets().values()):
        scheduler = Scheduler(300, backend=backend)
        for seed, mode in enumerate((*MODES, None)):
            needed = {} if mode is None else {"logprobs": seed, "logprobs_mode": mode}
            scheduler.add(SamplingParams(seed=seed, top_k=7, presence_penalty=0.5, **needed), [4])
        tables.append(scheduler.step(logits_of(300, 3)[:4]).logprobs)
    for table in tables:
        assert (table.token_ids[3] == -1).all()
        expect_equal(table, tables[0])


def test_rows_that_the_host_runs_have_their_logprobs() -> None:
    backend = next(iter(instruction_sets().values()))
    logits = logits_of(300, 4)
    logits[1] = np.nan
    expected, found = step("numpy", logits, 2, MODES), step(backend, logits, 2, MODES)
    assert found.errors[1] is not None
    expect_equal(found.logprobs, expected.logprobs)


@pytest.mark.parametrize("dtype", ["float32", *NARROW])
@pytest.mark.parametrize("size", [1, 2, 63, 65, 257, 5000])
def test_sums_of_rows_are_those_of_the_contract(size: int, dtype: str) -> None:
    path = library_path()
    if path is None:
        pytest.skip("there is no native library")
    random = np.random.default_rng(size)
    block = random_block(random, 30, size, faults=0)
    given: Any = NARROW[dtype](block) if dtype in NARROW else block
    rows = LogitRows(given, size)
    expected = [log_total(rows.row(i)) for i in range(30)]
    ffi, tensor, out = contract(), Tensor(rows), np.zeros(30)
    numbers = np.arange(30)
    for backend in instruction_sets().values():
        code = Library(path).function("log_sums")(
            backend._context.pointer,
            tensor.pointer,
            size,
            ffi.from_buffer("int64_t[]", numbers),
            30,
            ffi.from_buffer("double[]", out),
        )
        assert code == 0
        finite = np.isfinite(expected)
        assert out[finite].tolist() == np.array(expected)[finite].tolist()


def test_rows_of_different_lengths_equal_those_of_numpy() -> None:
    tables = []
    for backend in ("numpy", *instruction_sets().values()):
        scheduler = Scheduler(300, backend=backend, limits=RequestLimits(logprobs=None))
        for seed, top_n in enumerate((0, -1, 7, None, 300, 2)):
            scheduler.add(
                SamplingParams(seed=seed, top_k=9, logprobs=top_n, logprobs_mode=MODES[seed % 3]), [4]
            )
        tables.append(scheduler.step(logits_of(300, 5)[:6]).logprobs)
    for table in tables:
        assert np.diff(table.starts).tolist() == [1, 301, 8, 1, 301, 3]
        np.testing.assert_array_equal(table.starts, tables[0].starts)
        expect_equal(table, tables[0])
