"""The table's functions for devices: tickets, plans, streams, threads, memory."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from ascend_harness import Chip, Host, Step

OK, UNSUPPORTED, INVALID, NO_MEMORY, DEVICE, BUSY = range(6)
LOGITS = np.random.default_rng(8).normal(0, 3, (4, 256)).astype(np.float32)
BEST = LOGITS.argmax(axis=1).tolist()


def new_step(host: Host, logits: np.ndarray = LOGITS, **options: Any) -> Step:
    return Step(host, logits, [["greedy"]], **options)


def wait(host: Host, ticket: int) -> int:
    return int(host.api.wait(host.context, ticket))


def poll(host: Host, ticket: int) -> int:
    return int(host.api.poll(host.context, ticket))


# --- tickets -------------------------------------------------------------------------------------


def test_a_ticket_is_waited_for_once(host: Host) -> None:
    step = new_step(host)
    assert step.run() == OK
    ticket = step.batch.ticket
    assert ticket > 0
    assert wait(host, ticket) == OK
    assert wait(host, ticket) == poll(host, ticket) == wait(host, 0) == INVALID
    assert step.tokens.tolist() == BEST
    step.free()


def test_poll_is_busy_until_the_step_is_done(host: Host) -> None:
    step = new_step(host)
    assert step.run() == OK
    codes = [poll(host, step.batch.ticket) for _ in range(4)]
    assert codes == [BUSY, BUSY, BUSY, OK]
    assert step.tokens.tolist() == BEST
    step.free()


def test_run_returns_before_the_device_has_begun(host: Host, chip: Chip) -> None:
    step = new_step(host)
    assert step.run() == OK
    assert chip.live()["queued"] == 4  # a sum, the best tokens, a copy, the event
    assert step.tokens.tolist() == [-7] * 4
    step.finish()
    step.free()


def test_a_plan_has_one_open_run(host: Host) -> None:
    first, second = new_step(host), new_step(host, LOGITS[::-1].copy())
    assert first.run() == OK
    second.batch.plan, second.batch.workspace, second.batch.pinned = (
        first.batch.plan, first.batch.workspace, first.batch.pinned,
    )  # fmt: skip
    assert host.api.run(host.context, second.batch) == BUSY
    assert host.error() == "ascend: a run of this plan is open"
    assert first.finish().tokens.tolist() == BEST
    assert host.api.run(host.context, second.batch) == OK
    assert second.finish().tokens.tolist() == BEST[::-1]
    second.batch.plan = 0
    second.free()
    first.free()


def test_runs_of_several_plans_end_in_any_order(host: Host, chip: Chip) -> None:
    stream = chip.new_stream()
    steps = [new_step(host), new_step(host, LOGITS[::-1].copy(), stream=stream), new_step(host)]
    assert [step.run() for step in steps] == [OK] * 3
    for i in (1, 2, 0):
        assert steps[i].finish().tokens.tolist() == (BEST[::-1] if i == 1 else BEST)
    for step in steps:
        step.free()
    chip.destroy_stream(stream)


def test_a_plan_for_a_small_top_k_needs_less_memory(host: Host) -> None:
    steps = [Step(host, np.zeros((4, 2048), np.float32), [["top_k"]], params={"top_k": 9}) for _ in range(2)]
    steps[1]._shape_struct.most_top_k = 9
    assert [step.prepare() for step in steps] == [OK, OK]
    assert steps[1].plan.workspace_bytes < steps[0].plan.workspace_bytes / 4
    for step in steps:
        step.free()


def test_requests_may_change_while_a_step_is_open(host: Host) -> None:
    step = Step(host, LOGITS, [["top_k", "temperature"]], params={"top_k": 3, "temperature": 0.5})
    assert step.run() == OK
    for params in step._params:
        params.top_k, params.temperature = 200, 9.0
    step.rows[:], step._slots[:], step._programs[:] = 77, 99, 1234
    assert wait(host, step.batch.ticket) == OK
    step.rows[:] = range(4)
    outcome = step.outcome(OK)
    for row, (ids, left) in zip(range(4), outcome.survivors, strict=True):
        assert ids.tolist() == sorted(np.argsort(-LOGITS[row])[:3].tolist())
        np.testing.assert_array_equal(left, LOGITS[row, ids] * np.float32(2))
    step.free()


def test_a_step_waits_for_the_event_behind_which_its_logits_are_ready(host: Host, chip: Chip) -> None:
    lib, ffi = chip.lib, chip.ffi
    engine, ours = chip.new_stream(), chip.new_stream()
    step = new_step(host, np.zeros_like(LOGITS), stream=ours)
    pinned, event = ffi.new("void **"), ffi.new("sim_event **")
    assert lib.sim_allocate_pinned(LOGITS.nbytes, pinned) == lib.sim_create_event(event) == 0
    ffi.memmove(pinned[0], ffi.from_buffer(LOGITS), LOGITS.nbytes)
    to, on = ffi.cast("void *", step._logits), ffi.cast("void *", engine)
    assert lib.aclrtMemcpyAsync(to, LOGITS.nbytes, pinned[0], LOGITS.nbytes, 1, on) == 0
    assert lib.sim_record(event[0], ffi.cast("sim_stream *", engine)) == 0
    step.batch.ready = host.ffi.cast("void *", int(ffi.cast("uintptr_t", event[0])))
    assert step.finish(step.run()).tokens.tolist() == BEST
    step.free()
    assert lib.sim_destroy_event(event[0]) == lib.sim_deallocate_pinned(pinned[0]) == 0
    chip.destroy_stream(ours)
    chip.destroy_stream(engine)


def test_a_step_without_rows_is_done_at_once(host: Host) -> None:
    step = new_step(host)
    assert step.prepare() == OK
    step.batch.n = 0
    assert step.run() == OK
    assert step.batch.ticket == 0
    step.free()


# --- what does not fit ---------------------------------------------------------------------------


def spoil_rows(step: Step) -> None:
    step.rows[2] = 4


def spoil_workspace(step: Step) -> None:
    step.batch.workspace = step.host.ffi.cast("char *", step.batch.workspace) + 4


def spoil_programs(step: Step) -> None:
    step._programs[1] = 99


SPOILERS = {
    "no plan": lambda step: setattr(step.batch, "plan", 0),
    "no such plan": lambda step: setattr(step.batch, "plan", 55),
    "a vocabulary": lambda step: setattr(step.batch, "vocab_size", 255),
    "more rows": lambda step: setattr(step.batch, "n", 5),
    "another device": lambda step: setattr(step.batch.logits, "device_id", 1),
    "the host": lambda step: setattr(step.batch.logits, "device_type", 1),
    "another type": lambda step: setattr(step.batch.logits, "bits", 16),
    "no workspace": lambda step: setattr(step.batch, "workspace", step.host.ffi.NULL),
    "no pinned memory": lambda step: setattr(step.batch, "pinned", step.host.ffi.NULL),
    "a misaligned workspace": spoil_workspace,
    "a row that is not there": spoil_rows,
    "a program that is not there": spoil_programs,
}


@pytest.mark.parametrize("what", SPOILERS)
def test_a_batch_that_does_not_fit_is_refused_at_once(host: Host, chip: Chip, what: str) -> None:
    step = new_step(host)
    assert step.prepare() == OK
    plan = step.batch.plan
    SPOILERS[what](step)
    assert host.api.run(host.context, step.batch) == INVALID
    assert step.batch.ticket == 0
    assert chip.live()["queued"] == 0
    step.batch.plan = plan
    step.free()


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [("bits", 64, UNSUPPORTED), ("rows", 0, INVALID), ("vocab_size", 0, INVALID)],
)
def test_a_shape_that_cannot_be_planned(host: Host, field: str, value: int, code: int) -> None:
    step = new_step(host)
    setattr(step._shape_struct, field, value)
    assert step.prepare() == code
    step.free()


def test_a_plan_of_an_unknown_program(host: Host) -> None:
    step = new_step(host)
    step._programs_used[0] = 70
    assert step.prepare() == INVALID
    step.free()


def test_plans_are_released_and_their_number_is_bounded(host: Host) -> None:
    api, context = host.api, host.context
    step = new_step(host)
    numbers = []
    for _ in range(16):
        assert api.prepare(context, step._shape_struct, step.plan) == OK
        numbers.append(int(step.plan.number))
    assert api.prepare(context, step._shape_struct, step.plan) == BUSY
    assert len(set(numbers)) == 16
    assert api.release(context, numbers[3]) == OK
    assert api.release(context, numbers[3]) == INVALID
    assert api.prepare(context, step._shape_struct, step.plan) == OK
    assert step.plan.number not in numbers
    step.free()


def test_a_plan_with_an_open_run_is_not_released(host: Host) -> None:
    step = new_step(host)
    assert step.run() == OK
    assert host.api.release(host.context, step.batch.plan) == INVALID
    step.finish()
    step.free()


# --- threads, memory, rows -----------------------------------------------------------------------


def device_here(chip: Chip) -> int | None:
    out = chip.ffi.new("int32_t *")
    return None if chip.lib.aclrtGetDevice(out) else int(out[0])


def in_thread(work: Any) -> Any:
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(work()))
    thread.start()
    thread.join()
    return done[0]


def test_a_thread_has_its_own_device_again_after_each_call(host: Host, chip: Chip) -> None:
    def work() -> tuple[list[int], list[int | None]]:
        chip.lib.aclrtSetDevice(3)
        step = new_step(host)
        seen = [device_here(chip)]
        outcome = step.finish(step.run())
        seen.append(device_here(chip))
        step.free()
        seen.append(device_here(chip))
        return outcome.tokens.tolist(), seen

    assert in_thread(work) == (BEST, [3, 3, 3])


def test_a_thread_without_a_device_gets_that_of_the_context(host: Host, chip: Chip) -> None:
    step = new_step(host)
    assert step.prepare() == OK

    def work() -> tuple[list[int], int | None]:
        return step.finish(step.run()).tokens.tolist(), device_here(chip)

    assert in_thread(work) == (BEST, 0)
    step.free()


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [2], [3, 1, 2], []], ids=str)
def test_rows_are_read_for_the_host(host: Host, rows: list[int]) -> None:
    step = new_step(host)
    which, out = np.array(rows, np.int64), np.zeros((len(rows), 256), np.float32)
    code = host.api.read_rows(
        host.context,
        host.ffi.addressof(step.batch.logits),
        host.ffi.from_buffer("int64_t[]", which),
        len(rows),
        host.ffi.NULL,
        host.ffi.from_buffer(out),
    )
    assert code == OK
    np.testing.assert_array_equal(out, LOGITS[rows])
    step.free()


def test_memory_is_copied_in_both_directions(host: Host, chip: Chip) -> None:
    api, context, ffi = host.api, host.context, host.ffi
    address = chip.allocate(LOGITS.nbytes)
    device, out = ffi.cast("void *", address), np.zeros_like(LOGITS)
    assert api.copy(context, device, ffi.from_buffer(LOGITS), LOGITS.nbytes, 1, ffi.NULL) == OK
    assert api.copy(context, ffi.from_buffer(out), device, LOGITS.nbytes, 0, ffi.NULL) == OK
    np.testing.assert_array_equal(out, LOGITS)
    chip.free(address)


def test_memory_of_no_bytes_is_refused(host: Host) -> None:
    out = host.ffi.new("void **")
    assert host.api.allocate(host.context, 0, 0, out) == INVALID
    assert host.api.allocate(host.context, 1, -5, out) == INVALID


def test_a_step_allocates_nothing_and_waits_once(host: Host, chip: Chip) -> None:
    step = new_step(host)
    assert step.prepare() == OK
    before = chip.counters()
    step.finish(step.run())
    after = chip.counters()
    assert after.allocations == before.allocations
    assert after.waits - before.waits == 1
    assert after.device_synchronisations == 0
    assert after.pageable_copies == before.pageable_copies
    step.free()
