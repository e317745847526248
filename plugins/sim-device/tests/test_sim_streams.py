"""Streams and events: work is done late and in order, and failures are told at the next event."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

OLD, NEW = np.zeros((1, 4), np.float32), np.ones((1, 4), np.float32)


@pytest.fixture
def stream(device: Any) -> Iterator[Any]:
    from sim_device import SimStream

    stream = SimStream(device)
    yield stream
    stream.close()


@pytest.fixture
def event(device: Any) -> Iterator[Any]:
    out = device.ffi.new("sim_event **")
    device.check("sim_create_event", device.lib.sim_create_event(out))
    yield out[0]
    device.lib.sim_destroy_event(out[0])


def test_work_is_queued_until_somebody_waits(device: Any, stream: Any) -> None:
    array = device.array(OLD)
    device.produce(array, NEW, stream)
    assert stream.queued == 1
    assert np.array_equal(np.asarray(array), OLD)
    stream.synchronize()
    assert stream.queued == 0
    assert np.array_equal(np.asarray(array), NEW)


def test_work_is_done_after_enough_polls(device: Any, stream: Any, event: Any) -> None:
    array = device.array(OLD)
    device.produce(array, NEW, stream)
    device.check("record", device.lib.sim_record(event, stream.pointer))
    polls = [device.lib.sim_poll(event) for _ in range(5)]
    assert polls == [device.number("SIM_NOT_READY")] * 3 + [0, 0]


def test_a_late_event_is_not_ready_though_its_work_is_done(device: Any, stream: Any, event: Any) -> None:
    device.lib.sim_set_late_events(2)
    device.check("record", device.lib.sim_record(event, stream.pointer))
    assert [device.lib.sim_poll(event) for _ in range(6)] == [device.number("SIM_NOT_READY")] * 5 + [0]


def test_a_worker_does_the_work_while_nobody_waits(device: Any, stream: Any, event: Any) -> None:
    device.check("work", device.lib.sim_work_in_background(1))
    array = device.array(OLD)
    device.produce(array, NEW, stream)
    for _ in range(1000):
        if not stream.queued:
            break
        time.sleep(0.001)
    assert stream.queued == 0


def test_a_stream_waits_for_an_event_of_another(device: Any, stream: Any, event: Any) -> None:
    from sim_device import SimStream

    first, array = SimStream(device), device.array(OLD)
    copy = device.array(OLD)
    device.produce(array, NEW, first)
    device.check("record", device.lib.sim_record(event, first.pointer))
    device.check("await", device.lib.sim_wait_on_stream(stream.pointer, event))
    source = array.row_pointer(0)
    device.check("copy", device.lib.sim_copy(copy.row_pointer(0), source, 16, stream.pointer))
    stream.synchronize()
    assert np.array_equal(np.asarray(copy), NEW)
    first.close()


def test_a_failure_is_told_at_the_next_event_and_ends_there(device: Any, stream: Any, event: Any) -> None:
    array = device.array(OLD)
    device.fail("copying")
    device.produce(array, NEW, stream)
    device.check("record", device.lib.sim_record(event, stream.pointer))
    assert device.lib.sim_wait(event) == device.number("SIM_FAILED")
    assert np.array_equal(np.asarray(array), OLD)
    device.produce(array, NEW, stream)
    device.check("record", device.lib.sim_record(event, stream.pointer))
    assert device.lib.sim_wait(event) == 0
    assert np.array_equal(np.asarray(array), NEW)


def test_a_failure_reaches_the_streams_that_wait_for_it(device: Any, stream: Any, event: Any) -> None:
    from sim_device import SimStream

    first, array = SimStream(device), device.array(OLD)
    device.fail("copying")
    device.produce(array, NEW, first)
    device.check("record", device.lib.sim_record(event, first.pointer))
    device.check("await", device.lib.sim_wait_on_stream(stream.pointer, event))
    assert device.lib.sim_synchronize(stream.pointer) == device.number("SIM_FAILED")
    first.close()


def test_a_lost_device_stays_lost(device: Any, stream: Any) -> None:
    device.fail("launch", "SIM_LOST")
    lost = device.number("SIM_LOST")
    array = device.empty((1, 4))
    assert (
        device.lib.sim_produce(array.row_pointer(0), device.ffi.new("char[16]"), 16, stream.pointer) == lost
    )
    assert device.lib.sim_synchronize(stream.pointer) == lost
    assert device.lib.sim_enter_thread() == lost
    device.reset()
    stream.synchronize()


def test_a_copy_from_memory_that_is_not_pinned_is_counted_as_a_stop(device: Any, stream: Any) -> None:
    array, host = device.array(OLD), device.ffi.new("char[16]")
    with device.counted() as changes:
        device.check("copy", device.lib.sim_copy(array.row_pointer(0), host, 16, stream.pointer))
    assert (changes["pageable_copies"], changes["bytes_up"]) == (1, 16)
    stream.synchronize()


def test_pinned_memory_is_read_when_the_copy_is_done(device: Any, stream: Any) -> None:
    out = device.ffi.new("void **")
    device.check("pinned", device.lib.sim_allocate_pinned(16, out))
    pinned, array = device.ffi.cast("float *", out[0]), device.array(OLD)
    device.check("copy", device.lib.sim_copy(array.row_pointer(0), pinned, 16, stream.pointer))
    for i in range(4):
        pinned[i] = 1
    stream.synchronize()
    assert np.array_equal(np.asarray(array), NEW)
    device.lib.sim_deallocate_pinned(out[0])
