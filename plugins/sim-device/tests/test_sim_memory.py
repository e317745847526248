"""The device's memory: the host cannot read it, and mistakes with it are found."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

READS = """
import ctypes
library = ctypes.CDLL({path!r})
library.sim_mapped.argtypes, library.sim_mapped.restype = [ctypes.c_void_p], ctypes.c_void_p
library.sim_enter_thread()
address = ctypes.c_void_p()
print(library.sim_allocate(ctypes.c_int64(64), ctypes.byref(address)), flush=True)
ctypes.string_at({address}, 4)
"""


@pytest.mark.parametrize("address", ["address", "library.sim_mapped(address)"], ids=["given", "mapped"])
def test_a_host_that_follows_a_device_pointer_ends(device: Any, address: str) -> None:
    code = READS.format(path=str(device.path), address=address)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "0\n"
    assert done.returncode in (-signal.SIGSEGV, -signal.SIGBUS) or "AddressSanitizer" in done.stderr


def test_arrays_come_back_as_they_went(device: Any) -> None:
    values = np.random.default_rng(0).normal(0, 3, (5, 33)).astype(np.float32)
    assert np.array_equal(np.asarray(device.array(values)), values)
    assert np.array_equal(np.asarray(device.array(values, "float16")), values.astype(np.float16))
    widened = (device.array(values, "bfloat16").bits().astype(np.uint32) << 16).view(np.float32)
    assert np.allclose(widened, values, rtol=2**-8)


def test_slices_are_views_and_rows_are_gathered_on_the_device(device: Any) -> None:
    values = np.arange(40, dtype=np.float32).reshape(5, 8)
    array = device.array(values, width=16)
    with device.counted() as changes:
        parts = array[1:4], array[::-1], array[[4, 0]], array[1:3, 2:6]
    assert changes["bytes_down"] == 0
    wanted = values[1:4], values[::-1], values[[4, 0]], values[1:3, 2:6]
    for part, expected in zip(parts, wanted, strict=True):
        assert np.array_equal(np.asarray(part), expected)


def test_fresh_memory_is_full_of_arbitrary_bytes(device: Any) -> None:
    assert not np.isin(device.empty((1, 64), "int64").bits(), [0]).any()


def test_a_write_past_the_end_of_a_block_is_found(device: Any) -> None:
    array = device.empty((1, 4), "int64")
    start = array.row_pointer(0)

    @device.ffi.callback("int32_t(void *)")
    def overrun(arguments: Any) -> int:
        mapped = device.ffi.cast("char *", device.lib.sim_mapped(start))
        mapped[32] = b"x"
        return 0

    device.check("launch", device.lib.sim_launch(overrun, device.ffi.NULL, 0, device.ffi.NULL))
    device.check("wait", device.lib.sim_synchronize(device.ffi.NULL))
    del array
    assert device.counters()["overruns"] == 1


def test_copies_beyond_a_block_are_refused(device: Any) -> None:
    array, host = device.empty((1, 4)), device.ffi.new("char[]", 100)
    copy = device.lib.sim_copy
    assert copy(array.row_pointer(0), host, 17, device.ffi.NULL) == device.number("SIM_INVALID")
    assert copy(host, array.row_pointer(0), 17, device.ffi.NULL) == device.number("SIM_INVALID")


def test_memory_ends_where_its_capacity_is_reached(device: Any) -> None:
    device.lib.sim_set_capacity(4096)
    array = device.empty((1, 512))
    from sim_device import SimError

    with pytest.raises(SimError, match="no memory"):
        device.empty((1, 512))
    del array
    device.empty((1, 512))


def test_a_misaligned_device_gives_misaligned_memory(device: Any) -> None:
    device.lib.sim_set_misalignment(8)
    array = device.empty((1, 8))
    assert int(device.ffi.cast("uintptr_t", array.row_pointer(0))) % 64 == 8


def test_a_thread_that_has_not_entered_is_told(device: Any) -> None:
    import threading

    from sim_device import SimError

    errors: list[str] = []

    def allocate() -> None:
        try:
            device.empty((1, 8))
        except SimError as error:
            errors.append(str(error))

    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
    assert errors == ["sim_allocate: this thread has not entered the device"]
