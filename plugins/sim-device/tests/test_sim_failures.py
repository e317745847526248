"""Every failure of the device ends in a named error or in the host taking over; no row is lost."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from sim_twins import Twins

from engine_sampler import BackendError
from engine_sampler.for_backends import LibraryBackend
from tests.random_chains import ROUNDS

CHOSEN = (
    {"top_k": 9},
    {"repetition_penalty": 1.3},
    {"regex": r"(ab?|\n)*"},
    {"temperature": 0.0, "frequency_penalty": 0.3},
)

CALLS = (
    "allocate",
    "pinned",
    "stream",
    "event",
    "record",
    "copy",
    "launch",
    "prepare",
    "execute",
    "poll",
    "wait",
)
CALLS += ("enter", "copying", "working")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The backend's loss is logged, which is not what is looked at here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run_once(device: Any, call: str, code: str, skip: int) -> tuple[bool, list[str]]:
    """Some requests, during which call number `skip` fails: whether it did, and what errors the engine
    saw. Their steps are repeated, as an engine would, and all tokens are compared with NumPy's."""
    errors = []
    twins = Twins(device, CHOSEN)
    device.keeps_memory = True
    device.fail(call, code, skip=skip)
    for _ in range(3):
        for scheduler in (twins.own, twins.reference):
            scheduler.prepare()
        values = twins.logits(len(twins.own.request_ids))
        try:
            twins.step(values)
        except BackendError as error:
            errors.append(str(error))
            twins.step(values, only_own=True)
    return not device.failures_left, errors


CODES = ("SIM_FAILED", "SIM_NO_MEMORY", "SIM_LOST", "SIM_INVALID")
FAILURES = [
    (call, code)
    for i, call in enumerate(CALLS)
    for k, code in enumerate(CODES)
    if ROUNDS > 1 or i % len(CODES) == k
]
"""Calls and how they fail: each in one way, or in all ways with ENGINE_SAMPLER_TEST_ROUNDS=2."""


@pytest.mark.quick_share(4)
@pytest.mark.parametrize(("call", "code"), FAILURES)
def test_whichever_call_fails_the_tokens_are_those_of_the_reference(
    device: Any, call: str, code: str
) -> None:
    skip, failed = 0, True
    while failed:
        failed, errors = run_once(device, call, code, skip)
        assert all("INVALID" in error for error in errors), errors
        assert len(errors) <= (code == "SIM_INVALID")
        device.reset()
        device.enter()
        skip += 1
        assert skip < 60, "the failure comes again and again"
    assert skip > 1 or call == "launch"


@pytest.mark.parametrize("call", ["stream", "event", "enter"])
def test_a_device_that_fails_when_it_is_opened_is_refused(device: Any, call: str) -> None:
    gc.collect()  # contexts that are closed enter the device, too
    device.fail(call, "SIM_NO_MEMORY")
    with pytest.raises(BackendError, match=r"open returned NO_MEMORY: sim: .*: no memory"):
        LibraryBackend(device.path)


def test_a_lost_device_is_used_again_once_it_has_been_opened_again(device: Any) -> None:
    twins = Twins(device, CHOSEN[:2])
    twins.step()
    device.keeps_memory = True
    device.fail("copy", "SIM_LOST")
    twins.step()
    assert twins.backend.lost
    device.reset()
    twins.backend.reopen()
    with device.counted() as changes:
        twins.step()
    assert not twins.backend.lost
    assert changes["waits"] > 0


def test_requests_outlive_a_device_whose_logits_are_lost(device: Any) -> None:
    twins = Twins(device, CHOSEN[:2])
    values = twins.logits(2)
    array = device.array(values)
    device.fail("copy", "SIM_LOST", skip=2)
    with pytest.raises(BackendError, match="reading the logits on npu:0 failed"):
        twins.own.step(array)
    again = twins.own.step(values)  # computed anew, elsewhere
    assert again.token_ids.tolist() == twins.reference.step(values).token_ids.tolist()


@pytest.mark.parametrize("times", [1, 3, 50])
def test_late_events_change_nothing(device: Any, times: int) -> None:
    device.lib.sim_set_polls(times)
    device.lib.sim_set_late_events(times)
    Twins(device, CHOSEN).run(4)


def test_a_worker_that_runs_ahead_changes_nothing(device: Any) -> None:
    device.lib.sim_work_in_background(1)
    Twins(device, CHOSEN).run(4)
    device.lib.sim_work_in_background(0)


def test_a_version_without_the_operator_leaves_all_to_the_host(device: Any) -> None:
    twins = Twins(device, CHOSEN)
    device.remove_operator("step")
    twins.run(4)


def test_memory_that_is_misaligned_is_named(device: Any) -> None:
    twins = Twins(device, CHOSEN[:2])
    values = twins.logits(2)
    array = device.array(values)
    device.lib.sim_set_misalignment(8)
    with pytest.raises(BackendError, match="INVALID: sim: the pinned memory is misaligned"):
        twins.own.step(array)
    device.lib.sim_set_misalignment(0)


def test_a_device_without_memory_leaves_rows_to_the_host(device: Any) -> None:
    twins = Twins(device, CHOSEN)
    twins.step()
    device.fail("allocate", "SIM_NO_MEMORY", times=10_000)
    device.fail("pinned", "SIM_NO_MEMORY", times=10_000)
    twins.add({"top_k": 3}, 17)
    twins.run(3)
    assert not twins.backend.lost
