"""The table of the device's library, called in the orders that the header allows, and in some others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sim_calls import DIST, GREEDY, TOP_K, VOCAB, Host


@pytest.fixture
def host(device: Any) -> Iterator[Host]:
    """All slots have joined."""
    host = Host(device)
    assert host.tell("ES_JOINED", range(host.capacity)) == 0
    yield host
    host.close()


def logits_of(seed: int, rows: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (rows, VOCAB)).astype(np.float32)


def test_steps_of_several_plans_are_open_at_once_and_end_in_any_order(device: Any, host: Host) -> None:
    greedy = host.compile(GREEDY)
    values = [logits_of(seed) for seed in range(3)]
    steps = [host.step(device.array(array), greedy, range(4), host.prepare(4, [greedy])) for array in values]
    assert [host.run(step) for step in steps] == ["OK"] * 3
    assert len({step.batch.ticket for step in steps}) == 3
    assert all((step.token_ids == -7).all() for step in steps), "nothing is written before a wait"
    for i in (2, 0, 1):
        assert host.wait(steps[i]) == "OK"
        assert steps[i].token_ids.tolist() == values[i].argmax(axis=1).tolist()
        assert steps[i].batch.faults == 0


def test_a_ticket_ends_once(device: Any, host: Host) -> None:
    greedy = host.compile(GREEDY)
    step = host.step(device.array(logits_of(0)), greedy, range(4), host.prepare(4, [greedy]))
    assert host.run(step) == "OK"
    polled = []
    while (code := host.poll(step)) == "BUSY":
        polled.append(code)
    assert (len(polled), code) == (3, "OK")
    assert host.wait(step) == "INVALID"
    assert "is not open" in host.error()


def test_what_is_no_output_may_change_once_run_has_returned(device: Any, host: Host) -> None:
    program = host.compile(TOP_K, DIST)
    array, plan = device.array(logits_of(1)), host.prepare(4, [program])
    first = host.step(array, program, range(4), plan)
    assert (host.run(first), host.wait(first)) == ("OK", "OK")
    second = host.step(array, program, range(4), plan)
    assert host.run(second) == "OK"
    held = [host.arrays[name].copy() for name in ("seeds", "positions", "lengths")]
    for name in ("seeds", "positions", "lengths", "tokens"):
        host.arrays[name][:] = 99
    for params in host.params:
        params.top_k = 1
    assert host.wait(second) == "OK"
    assert second.token_ids.tolist() == first.token_ids.tolist()
    host.arrays["seeds"][:], host.arrays["positions"][:], host.arrays["lengths"][:] = held


def test_tokens_that_have_joined_travel_with_the_next_step(device: Any, host: Host) -> None:
    program = host.compile("ES_OP_PENALTIES", GREEDY)
    for params in host.params:
        params.repetition_penalty, params.repetition_reach = 1.0, -1
        params.presence_penalty, params.counting_reach = 100.0, -1
    assert host.tell("ES_ROLLED_BACK", range(4)) == 0, "other parameters"
    values, plan = logits_of(2), host.prepare(4, [program])
    values[:, 1] = -50
    best = values.argmax(axis=1)
    for slot in range(4):
        host.arrays["tokens"][16 * slot + 3] = best[slot]
    host.arrays["lengths"][:] = 4
    host.arrays["epochs"][:] += 10
    with device.counted() as changes:
        assert host.tell("ES_GREW", range(4), [3] * 4) == 0
    assert changes["copies_up"] == 0
    step = host.step(device.array(values), program, range(4), plan)
    with device.counted() as changes:
        assert (host.run(step), host.wait(step)) == ("OK", "OK")
    assert changes["copies_up"] == 1
    values[np.arange(4), best] -= 100
    assert step.token_ids.tolist() == values.argmax(axis=1).tolist()


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"plan": 9}, "plan 9 does not exist"),
        ({"pinned": None}, "no pinned memory"),
        ({"workspace": None}, "no workspace"),
        ({"vocab_size": VOCAB - 1}, "the logits are not those of plan"),
        ({"masks": 5}, "masks 5 are void"),
    ],
    ids=["no plan", "no pinned memory", "no workspace", "another vocabulary", "void masks"],
)
def test_what_a_host_does_wrong_is_named(device: Any, host: Host, fields: dict[str, Any], error: str) -> None:
    greedy = host.compile(GREEDY)
    plan = host.prepare(4, [greedy])
    step = host.step(device.array(logits_of(0)), greedy, range(4), plan)
    for name, value in fields.items():
        setattr(step.batch, name, host.ffi.NULL if value is None else value)
    assert host.run(step) == "INVALID"
    assert error in host.error()
    assert device.lib.sim_queued(device.ffi.NULL) == 0


def test_a_plan_with_an_open_step_is_not_run_again(device: Any, host: Host) -> None:
    greedy = host.compile(GREEDY)
    plan, array = host.prepare(4, [greedy]), device.array(logits_of(0))
    first, second = (host.step(array, greedy, range(4), plan) for _ in range(2))
    assert host.run(first) == "OK"
    assert host.run(second) == "INVALID"
    assert "has a step that is not done" in host.error()
    assert host.wait(first) == "OK"


def test_rows_of_the_host_and_rows_beyond_the_array_are_refused(device: Any, host: Host) -> None:
    greedy = host.compile(GREEDY)
    plan, values = host.prepare(4, [greedy]), logits_of(0)
    step = host.step(device.array(values), greedy, range(4), plan)
    step.batch.logits.data = host.ffi.from_buffer(values)
    assert host.run(step) == "INVALID"
    assert "is not in the device's memory" in host.error()
    short = host.step(device.array(values[:3]), greedy, range(4), plan)
    assert host.run(short) == "INVALID"
    assert "row 3 of 3 does not exist" in host.error()


def test_a_request_that_has_changed_without_notice_is_named(device: Any, host: Host) -> None:
    greedy = host.compile(GREEDY)
    step = host.step(device.array(logits_of(0)), greedy, range(4), host.prepare(4, [greedy]))
    host.arrays["lengths"][2] += 1
    assert host.run(step) == "INVALID"
    assert "slot 2 has changed without notice" in host.error()


def test_a_request_without_memory_is_declined_until_there_is_some(device: Any, host: Host) -> None:
    greedy = host.compile(GREEDY)
    plan, array = host.prepare(4, [greedy]), device.array(logits_of(3))
    device.fail("allocate", "SIM_NO_MEMORY", times=2)
    assert host.tell("ES_JOINED", [1]) == 0
    step = host.step(array, greedy, range(4), plan)
    assert (host.run(step), host.wait(step)) == ("OK", "OK")
    assert step.status.tolist() == [0, 5, 0, 0]
    assert step.batch.faults == 1
    assert host.tell("ES_GREW", [], []) == 0
    again = host.step(array, greedy, range(4), plan)
    assert (host.run(again), host.wait(again)) == ("OK", "OK")
    assert again.status.tolist() == [0, 0, 0, 0]


def test_rows_are_read_in_any_order(device: Any, host: Host) -> None:
    values = logits_of(4)
    step = host.step(device.array(values), 0, range(4), {})
    out = np.zeros((3, VOCAB), np.float32)
    rows = host.ffi.new("int64_t[]", [2, 0, 2])
    tensor = host.ffi.addressof(step.batch, "logits")
    stream, to = host.ffi.NULL, host.ffi.from_buffer(out)
    assert host.api.read_rows(host.context, tensor, rows, 3, stream, to) == 0
    assert np.array_equal(out, values[[2, 0, 2]])


def test_a_library_is_opened_for_its_device_alone(device: Any, host: Host) -> None:
    out = host.ffi.new("es_context **")
    for kind, index in ((1, 0), (2, 0), (12, 1)):
        options = host.ffi.new(
            "es_options *", {"size": host.ffi.sizeof("es_options"), "device": (kind, index)}
        )
        assert host.api.open(options, out) == 1
    assert device.contexts == 1


def test_a_device_without_memory_says_why_it_does_not_open(device: Any, host: Host) -> None:
    why, out = host.ffi.new("char[100]"), host.ffi.new("es_context **")
    size = host.ffi.sizeof("es_options")
    fields = {"size": size, "device": (12, 0), "why": why, "why_bytes": 100}
    device.fail("stream", "SIM_NO_MEMORY")
    assert host.api.open(host.ffi.new("es_options *", fields), out) == 3
    assert host.ffi.string(why) == b"sim: a stream: no memory"
    assert device.contexts == 1
