"""Calls that do not return in time are left behind, with everything that they may still use."""

from __future__ import annotations

import functools
import gc
import logging
import time
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.backends.choose import named_backend
from engine_sampler.backends.library import LibraryBackend

from .building import library, toy, variant
from .running import PLAIN, STATEFUL, VOCAB, generate, generate_on_numpy, logits_of, scheduler_of

LOGPROBS = tuple({**given, "logprobs": 3} for given in PLAIN)
MINUTE = 60.0


@functools.cache
def controls(path: Path) -> Any:
    """The functions by which a late library is told to go on."""
    ffi = cffi.FFI()
    ffi.cdef("void late_return(void); int32_t late_waiting(void); int32_t late_closed(void);")
    return ffi.dlopen(str(path))


@pytest.fixture
def late() -> Path:
    """A library whose steps return only when they are told to; compiled anew, since it stays as it is."""
    library.cache_clear()
    return variant("LATE")


@pytest.mark.parametrize("settings", [PLAIN, STATEFUL, LOGPROBS], ids=["plain", "stateful", "logprobs"])
@pytest.mark.parametrize("path", ["toy", "native"])
def test_a_time_limit_changes_no_token(path: str, settings: Any, packaged: Path) -> None:
    backend = LibraryBackend(toy() if path == "toy" else packaged, timeout=MINUTE)
    assert np.array_equal(generate(settings, backend), generate_on_numpy(settings))
    assert not backend.lost


def test_logprobs_are_handed_out_under_a_time_limit(packaged: Path) -> None:
    settings = tuple({**given, "logprobs": 2, "logprobs_mode": ("raw", "processed")} for given in PLAIN)
    result, expected = (
        scheduler_of(settings, each).step(logits_of(0, len(PLAIN)))
        for each in (LibraryBackend(packaged, timeout=MINUTE), "numpy")
    )
    for kind, table in expected.logprobs.by_mode.items():
        np.testing.assert_array_equal(result.logprobs.by_mode[kind].token_ids, table.token_ids)
        np.testing.assert_array_equal(result.logprobs.by_mode[kind].logprobs, table.logprobs)


@pytest.mark.parametrize("timeout", [MINUTE, None])
def test_a_library_that_writes_no_tokens_does_not_repeat_those_of_the_last_step(
    timeout: float | None,
) -> None:
    library.cache_clear()  # it counts its runs
    backend = LibraryBackend(variant("IDLE"), timeout=timeout)
    tokens = []
    for each in (backend, "numpy"):
        scheduler = Scheduler(VOCAB, backend=each)
        scheduler.add(SamplingParams(seed=1))
        tokens.append([scheduler.step(logits_of(step, 1)).tokens(0) for step in range(4)])
    assert tokens[0] == tokens[1]
    assert backend.lost


def test_the_host_runs_a_late_step_and_all_later_ones(late: Path, caplog: pytest.LogCaptureFixture) -> None:
    backend = LibraryBackend(late, timeout=0.05)
    with caplog.at_level(logging.WARNING, "engine_sampler"):
        tokens = generate(PLAIN, backend)
    assert np.array_equal(tokens, generate_on_numpy(PLAIN))
    assert backend.lost
    assert controls(late).late_waiting() == 1  # it was called once
    assert "a call has not returned within 0.05 s" in caplog.text
    controls(late).late_return()


def test_what_a_late_call_writes_in_the_end_reaches_nobody(late: Path) -> None:
    backend = LibraryBackend(late, timeout=0.05)
    scheduler, logits = scheduler_of(PLAIN, backend), logits_of(0, len(PLAIN))
    result = scheduler.step(logits)
    tokens = result.token_ids.copy()
    del scheduler, logits
    gc.collect()
    controls(late).late_return()
    while controls(late).late_waiting():
        time.sleep(0.001)
    assert np.array_equal(result.token_ids, tokens)
    assert np.array_equal(tokens, generate_on_numpy(PLAIN, steps=1)[0])
    assert controls(late).late_closed() == 0


def test_requests_come_and_go_while_a_late_call_still_reads_theirs(late: Path) -> None:
    backend = LibraryBackend(late, timeout=0.05)
    scheduler = scheduler_of(PLAIN, backend)
    scheduler.step(logits_of(0, len(PLAIN)))
    for request_id in list(scheduler.request_ids):
        scheduler.remove(request_id)
    gc.collect()
    controls(late).late_return()
    while controls(late).late_waiting():
        time.sleep(0.001)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), 1e300])
def test_a_time_limit_is_a_positive_number_of_seconds(timeout: float) -> None:
    with pytest.raises(ValueError, match=r"timeout=\S+ is not allowed: a positive number of seconds"):
        LibraryBackend(toy(), timeout=timeout)


def test_the_environment_may_set_the_time_limit_of_a_named_library(
    monkeypatch: pytest.MonkeyPatch, late: Path
) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_LIBRARY_TIMEOUT", "0.05")
    backend = named_backend(f"library:{late}")
    assert backend is not None
    assert np.array_equal(generate(PLAIN, backend), generate_on_numpy(PLAIN))
    controls(late).late_return()


def test_a_time_limit_in_the_environment_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_LIBRARY_TIMEOUT", "soon")
    library.cache_clear()
    with pytest.raises(ValueError, match="ENGINE_SAMPLER_LIBRARY_TIMEOUT='soon' is not a number of seconds"):
        named_backend(f"library:{toy()}")
