"""Every call of CANN that fails ends in the right code and leaves nothing; the next step is as ever."""

from __future__ import annotations

import numpy as np
import pytest
from ascend_harness import Chip, Host, Step, nothing_left, vendor_table

OK, UNSUPPORTED, INVALID, NO_MEMORY, DEVICE, BUSY = range(6)

MEANINGS = {
    OK: (0,),
    UNSUPPORTED: (
        100000, 161001, 161002, 200001, 200006, 207000, 561001, 561002, 561003, 561107, 561112,
    ),
    NO_MEMORY: (200000, 207001, 300000),
    DEVICE: (100001, 107002, 200002, 361001, 500000, 507018, 561000, 999999),
    BUSY: (561101, 561103),
}  # fmt: skip
CODES = {status: code for code, statuses in MEANINGS.items() for status in statuses}
"""What aclError and aclnnStatus mean for the host."""

SEVERAL = (207001, 507018, 161002)
"""No memory, a lost device, a shape that an operator does not run."""

LOGITS = np.random.default_rng(5).normal(0, 3, (4, 256)).astype(np.float32)
NOISE = np.random.default_rng(6).exponential(size=LOGITS.shape).astype(np.float32)
PROGRAMS = {
    "exact": [["greedy"], ["top_k"]],
    "operators": [["top_k", "top_p"], ["temperature", "top_k", "min_p", "dist"], ["greedy"], ["top_k"]],
}
PARAMS = {"top_k": 5, "top_p": 0.9, "temperature": 0.8, "min_p": 0.01}


def step_of(host: Host, isa: str) -> Step:
    """A step that calls every function that the library calls for these programs."""
    programs = PROGRAMS[isa]
    which = [i % len(programs) for i in range(len(LOGITS))]
    on_device = isa == "operators"
    return Step(host, LOGITS, programs, which=which, params=PARAMS, noise=NOISE, on_device=on_device)


def result_of(host: Host, isa: str) -> tuple[int, list[int]]:
    step = step_of(host, isa)
    try:
        outcome = step.finish(step.run())
        return outcome.code, [*outcome.tokens.tolist(), *outcome.status.tolist()]
    finally:
        step.free()


PREPARING = ("aclrtCreateEvent", "aclrtMalloc", "aclCreateIntArray", "aclrtMallocHost")
OPERATORS = {
    "exact": ("aclnnReduceSum", "aclnnTopk"),
    "operators": (
        "aclnnReduceSum", "aclnnTopk", "aclnnAmax", "aclnnArgMax", "aclnnMul", "aclnnApplyTopKTopP",
        "aclnnTopKTopPSampleV2",
    ),
}  # fmt: skip
RUNNING = ("aclCreateTensor", "aclrtMemcpyAsync", "aclrtRecordEvent", "aclrtSynchronizeEvent")
DESTROYING = ("aclDestroyTensor", "aclrtDestroyEvent", "aclDestroyIntArray", "aclDestroyAclOpExecutor")


def functions(isa: str) -> list[str]:
    phases = [f"{name}{phase}" for name in OPERATORS[isa] for phase in ("GetWorkspaceSize", "")]
    return [*PREPARING, *RUNNING, *phases, *(["aclrtMemsetAsync"] if isa == "operators" else [])]


CALLS = [(isa, name) for isa in PROGRAMS for name in functions(isa)]


@pytest.mark.quick_share(4)
@pytest.mark.parametrize(("isa", "function"), CALLS)
def test_any_call_may_fail(chip: Chip, isa: str, function: str) -> None:
    """Each call of the function in a step in turn, until one of them does not take place any more."""
    is_pointer = function in ("aclCreateTensor", "aclCreateIntArray")
    with nothing_left(chip):
        host = Host(chip, isa)
        expected = result_of(host, isa)
        host.close()
        nth, reached = 0, True
        while reached:
            nth += 1
            code = 1 if is_pointer else SEVERAL[nth % len(SEVERAL)]
            chip.reset()
            chip.fail(function, code, nth)
            host = Host(chip, isa)
            found = attempt(host, isa)
            reached = chip.calls(function) >= nth
            if reached:
                assert found == (NO_MEMORY if is_pointer else CODES[code]), (code, nth)
            chip.fail(function, OK, 1)
            assert result_of(host, isa) == expected
            assert chip.misuse() == ""
            host.close()
        assert nth > 1


def attempt(host: Host, isa: str) -> int:
    """The code of a step that may fail anywhere."""
    step = step_of(host, isa)
    code = step.finish(step.run()).code
    step.free()
    return code


@pytest.mark.parametrize(("code", "meaning"), CODES.items())
def test_codes_mean_what_the_header_says(chip: Chip, host: Host, code: int, meaning: int) -> None:
    chip.fail("aclnnTopkGetWorkspaceSize", code)
    assert result_of(host, "exact")[0] == meaning
    if meaning != OK:
        assert f"aclnnTopk returned {code}: EZ9999" in host.error()
    assert result_of(host, "exact")[0] == OK


@pytest.mark.parametrize("function", DESTROYING)
def test_what_cannot_be_destroyed_is_no_error_of_the_step(chip: Chip, function: str) -> None:
    host = Host(chip)
    expected = result_of(host, "exact")
    chip.fail(function, 507018)
    assert result_of(host, "exact")[0] == expected[0]
    chip.fail(function, 0, 10**9)
    assert result_of(host, "exact") == expected
    host.close()


WORK = [
    ("exact", "copying", 1),
    ("exact", "working", 2),
    ("operators", "copying", 5),
    ("operators", "working", 13),
]
"""How much of each kind the device has to do in a step."""


@pytest.mark.parametrize(("isa", "work", "nth"), [(isa, work, i) for isa, work, n in WORK for i in range(n)])
def test_work_that_fails_on_the_device_is_found_when_the_host_waits(
    chip: Chip, isa: str, work: str, nth: int
) -> None:
    failed = 11
    with nothing_left(chip):
        host = Host(chip, isa)
        step = step_of(host, isa)
        assert chip.lib.sim_fail(work.encode(), nth, 1, failed) == 0
        assert step.finish(step.run()).code == DEVICE
        step.free()
        chip.lib.sim_reset()
        assert result_of(host, isa)[0] == OK
        host.close()


def test_a_lost_device_is_lost_until_it_is_opened_again(chip: Chip) -> None:
    lost = 2
    host = Host(chip)
    expected = result_of(host, "exact")
    step = step_of(host, "exact")
    assert step.run() == OK
    assert chip.lib.sim_fail(b"working", 0, 1, lost) == 0
    assert step.finish().code == DEVICE
    chip.lib.sim_reset()
    step.free()
    host.close()
    with nothing_left(chip):
        host = Host(chip)
        assert result_of(host, "exact") == expected
        host.close()


@pytest.mark.parametrize("code", [0, 100002, 107002, 507018])
def test_a_process_that_has_started_cann_already_is_no_error(chip: Chip, code: int) -> None:
    chip.fail("aclInit", code)
    table = vendor_table()
    found, context = table.open()
    assert found == (OK if code in (0, 100002) else DEVICE)
    if found == OK:
        table.api.close(context)


def test_close_ends_steps_that_are_open(chip: Chip) -> None:
    host = Host(chip)
    step = step_of(host, "exact")
    before = chip.live()
    assert step.run() == OK
    host.close()
    assert chip.live()["tensors"] == before["tensors"]
    assert chip.live()["queued"] == 0
    assert chip.misuse() == ""
