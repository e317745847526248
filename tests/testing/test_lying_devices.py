"""Every law of the header for devices has a library that breaks it alone, and `check` names it.

A quick run tries a sample of these libraries; ENGINE_SAMPLER_TEST_ROUNDS=2 tries them all.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine_sampler.base.packaged import library_path
from engine_sampler.testing.library import (
    FAILED,
    NOT_PROMISED,
    PASSED,
    CheckResult,
    check_apart,
    check_library,
)
from engine_sampler.testing.library.device import DEVICE_PROMISES

from ..backends.library.building import library, simulated_device
from .test_lying_libraries import THOROUGH

SOURCE = Path(__file__).resolve().parent / "lying_device.c"
PLACE = " on npu:0"
SEED, MOST = 1, 12
"""Of the libraries that a quick run tries, and how many these are."""

BITS, UNIFORM, EXPONENTIAL = (f"0 0 0 64 {kind}" for kind in (1, 2, 3))
"""Limits of libraries that are given random numbers."""

LIES = {
    # calls in two halves
    "outputs_late": ("late inputs", "outputs are written when `wait` returns"),
    "status_late": ("late inputs", "every status is written when `wait` returns"),
    "poll_too_early": ("tickets", "`poll` is BUSY until outputs are written"),
    "poll_never_done": ("tickets", "`poll` ends"),
    "writes_after_end": ("guards", "nothing is written once a call has ended"),
    "ends_oldest": ("tickets", "tickets end in any order"),
    "ticket_of_last": ("tickets", "open calls have tickets of their own"),
    "sets_n": ("guards", "of the batch, only faults and ticket are written"),
    "declines_all": ("guards", "some rows are run"),
    "faults_zero": ("early tokens", "faults counts the rows that have one"),
    # what may change once `run` has returned
    "positions_late": ("late inputs", "positions are read in `run`"),
    "slots_late": ("late inputs", "slot numbers are read in `run`"),
    "programs_late": ("late inputs", "program numbers are read in `run`"),
    "rows_late": ("late inputs", "row numbers are read in `run`"),
    "random_late": ("late inputs", "random numbers are read in `run`", BITS),
    # tokens on the device
    "token_on_device_wrong": ("early tokens", "tokens on the device are those on the host"),
    "token_on_device_late": ("early tokens", "tokens on the device come in the order of the stream"),
    "nothing_on_device": ("early tokens", "ES_ON_DEVICE leaves tokens on the device"),
    "tokens_by_entry": ("early tokens", "tokens on the device are ordered by row"),
    # survivors
    "survivor_missing": ("survivors", "no token is missing"),
    "survivor_doubled": ("survivors", "no token survives twice"),
    "survivors_unsorted": ("survivors", "survivors ascend"),
    "survivor_scaled": ("survivors", "logits of survivors are those of the row"),
    "survivors_truncated": ("survivors", "a row with more than there is room for is declined"),
    "survivor_forbidden": ("survivors", "no other token survives"),
    "ties_by_id_kept": ("survivors", "ES_TIES_BY_ID keeps the lowest ids"),
    # masks
    "changed_ignored": ("staged masks", "rows that have changed are read again"),
    "masks_stale": ("staged masks", "the masks that were staged last count"),
    "masks_late": ("staged masks", "masks may change once they are staged"),
    "masks_always_used": ("staged masks", "staged masks are used if the step names them"),
    # requests
    "rollback_ignored": ("changes", "tokens that are rolled back are forgotten"),
    "rollback_by_prompt": ("changes", "a rollback may reach to the prompt"),
    "join_ignored": ("changes", "a slot's next request has parameters of its own"),
    "growth_off_by_one": ("changes", "the last token of several counts"),
    "growth_ignored": ("changes", "tokens that are new count"),
    # plans and memory
    "plan_repeated": ("plans", "plans have different numbers"),
    "plan_negative": ("plans", "a plan needs 0 bytes or more"),
    "plan_not_released": ("plans", "`release` ends a plan"),
    "plan_rows_exact": ("plans", "a plan serves fewer rows, too"),
    "plan_of_first": ("plans", "a plan serves all its rows"),
    "writes_past_workspace": ("guards", "nothing is written behind the workspace"),
    "writes_before_pinned": ("guards", "nothing is written before pinned memory"),
    "writes_past_tokens": ("guards", "nothing is written behind the tokens on the device"),
    "writes_past_survivors": ("guards", "nothing is written behind the survivors"),
    "logits_changed": ("guards", "logits are never written"),
    "memory_shared": ("plans", "memory is given once"),
    "deallocate_refused": ("plans", "memory is taken back"),
    # random numbers
    "random_ignored": ("numbers", "random numbers are used", BITS),
    "random_of_first": ("numbers", "every row has a number of its own", UNIFORM),
    "random_rotated": ("numbers", "a row has its own numbers", EXPONENTIAL),
    # limits
    "top_k_untrue": ("limits", "max_top_k is served"),
    "rows_untrue": ("limits", "max_rows are served"),
    "alignment_untrue": ("limits", "rows are aligned to no more than alignment"),
    "alignment_odd": ("limits", "an alignment is a power of two"),
    "survivors_of_none": ("limits", "ES_SURVIVORS leaves some"),
    "random_unknown": ("limits", "random is one of the header's"),
    "ties_any": ("limits", "ES_EXACT says which ties are kept"),
    "answers_differ": ("limits", "an answer is the same in every context"),
    # threads, rows
    "no_enter_thread": ("threads", "any thread may call"),
    "static_programs": ("threads", "a context has its own programs"),
    "rows_read_in_order": ("rows for the host", "rows are read in any order"),
}
"""The check that must fail, the law, and the library's limits if it has some."""

LEAKS = {
    "leak_per_leave": "memory of the process",
    "leak_per_step": "memory of the process",
    "stops_at_150": "NO_MEMORY",
    "deallocate_ignored": "NO_MEMORY",
}
"""What must be said of libraries that keep memory: each takes seconds."""


def some(lies: Mapping[str, object], n: int) -> list[str]:
    """What a quick run tries of `lies`."""
    names = sorted(lies)
    return names if THOROUGH else sorted(random.Random(SEED).sample(names, n))


@pytest.fixture(autouse=True)
def _in_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    path = library_path()
    if path is None:
        pytest.skip("the package was built without a C compiler")
    monkeypatch.setenv("LIE_NATIVE", str(path))
    monkeypatch.setattr("engine_sampler.testing.library.random_programs.BUDGET", 0.4)
    monkeypatch.setattr("engine_sampler.testing.library.device.calling._LONGEST_POLLS", 0.2)
    monkeypatch.setenv("LIE_DEVICE", str(simulated_device()))


def checked(monkeypatch: pytest.MonkeyPatch, lie: str, limits: str, *only: str) -> dict[str, CheckResult]:
    monkeypatch.setenv("LIE", lie)
    monkeypatch.setenv("LIE_LIMITS", limits)
    names = [name + PLACE for name in only]
    return {check.name.removesuffix(PLACE): check for check in check_library(library(SOURCE), only=names)}


def test_a_library_for_a_device_alone_keeps_its_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    only = () if THOROUGH else ("plans", "early tokens", "late inputs", "changes", "random requests")
    checks = checked(monkeypatch, "", "", *only)
    failed = {name: check.detail for name, check in checks.items() if check.outcome == FAILED}
    assert failed == {}
    assert {check.outcome for name, check in checks.items() if name in only} <= {PASSED}
    if THOROUGH:
        assert set(DEVICE_PROMISES) <= set(checks)
        assert checks["devices"].detail == "npu:0"


@pytest.mark.parametrize(
    "limits", ["3 4 128 3", f"{BITS} 0 1", UNIFORM, "0 0 0 64 0 1"] if THOROUGH else ["3 4 128 3"]
)
def test_a_library_with_limits_keeps_them(limits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    only = ("limits", "numbers", "survivors", "changes", "plans") if THOROUGH else ("limits", "survivors")
    checks = checked(monkeypatch, "", limits, *only)
    assert {check.outcome for check in checks.values()} <= {PASSED, NOT_PROMISED}


@pytest.mark.parametrize("lie", some(LIES, MOST))
def test_a_broken_law_is_named(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, law, *limits = LIES[lie]
    [check] = checked(monkeypatch, lie, limits[0] if limits else "", name).values()
    assert check.outcome == FAILED, law


@pytest.mark.skipif(not THOROUGH, reason="takes a minute; ENGINE_SAMPLER_TEST_ROUNDS=2 tries it")
@pytest.mark.parametrize("lie", sorted(LEAKS))
def test_kept_memory_is_named(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIE", lie)
    [check] = check_apart(library(SOURCE), only=["memory" + PLACE])  # where no memory is free yet
    assert check.outcome == FAILED
    assert LEAKS[lie] in check.detail
