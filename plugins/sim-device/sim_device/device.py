"""`SimDevice`: the simulated accelerator, its arrays, counters and failures, from Python."""

from __future__ import annotations

import atexit
import functools
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cffi  # type: ignore[import-untyped]
import numpy as np

from .arrays import SimArray
from .building import LIBRARY, SOURCES, compile_library, installed_library, kernels
from .dlpack import offer_capsule_functions


class SimError(RuntimeError):
    """A call of the device has failed; `code` is its `sim_code`."""

    def __init__(self, call: str, code: int, words: str) -> None:
        super().__init__(f"{call}: {words}")
        self.code = code


class SimStream:
    """A stream of the device; `address` is what `OnStream` and `es_batch.stream` take."""

    def __init__(self, device: SimDevice) -> None:
        out = device.ffi.new("sim_stream **")
        device.check("sim_create_stream", device.lib.sim_create_stream(out))
        self._device, self.pointer = device, out[0]
        self.address = int(device.ffi.cast("uintptr_t", self.pointer))

    @property
    def queued(self) -> int:
        """How much of its work has not been done."""
        return int(self._device.lib.sim_queued(self.pointer))

    def synchronize(self) -> None:
        """Wait for its work; raises `SimError` if that has failed."""
        self._device.check("sim_synchronize", self._device.lib.sim_synchronize(self.pointer))

    def close(self) -> None:
        self._device.check("sim_destroy_stream", self._device.lib.sim_destroy_stream(self.pointer))


class SimDevice:
    """The device of this process; `sim_device()` gives it.

    path  the library, for `LibraryBackend`.
    ffi, lib  cffi's, of sim_device.h and sim_library.h.
    keeps_memory  whether arrays can still be read once the device is lost.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keeps_memory = False
        self.ffi = cffi.FFI()
        for header in ("sim_device.h", "sim_library.h"):
            self.ffi.cdef(_declarations(SOURCES / header))
        # Arrays may be freed after this object: the library stays until the process ends.
        self.lib = self.ffi.dlopen(str(path), self.ffi.RTLD_NOW | self.ffi.RTLD_NODELETE)
        offer_capsule_functions(self)
        self.enter()
        self.check("sim_use_kernels", self.lib.sim_use_kernels(str(kernels()).encode()))
        self.configure()

    def enter(self) -> None:
        """Let this thread use the device."""
        self.check("sim_enter_thread", self.lib.sim_enter_thread())

    def check(self, call: str, code: int) -> None:
        """Raise `SimError` for a `sim_code` that is not SIM_OK."""
        if code:
            raise SimError(call, code, self.ffi.string(self.lib.sim_name_of(code)).decode())

    def number(self, name: str) -> int:
        """The value of a constant of the headers: "SIM_LOST"."""
        return int(getattr(self.lib, name))

    # --- arrays ------------------------------------------------------------------------------------

    def array(self, values: np.ndarray, dtype: str = "float32", *, width: int = 0) -> SimArray:
        """`values` [rows, columns] on the device, in rows of `width` elements if that is more. float32 values
        are rounded to `dtype`: "float32", "float16" or "bfloat16"."""
        out = self.empty((len(values), max(width, values.shape[1])), dtype)[:, : values.shape[1]]
        self.produce(out, values)
        self.check("sim_synchronize", self.lib.sim_synchronize(self.ffi.NULL))
        return out

    def empty(self, shape: tuple[int, ...], dtype: str = "float32") -> SimArray:
        """An array full of arbitrary bytes."""
        return SimArray.new(self, shape, dtype)

    def produce(self, out: SimArray, values: np.ndarray, stream: SimStream | None = None) -> None:
        """Queue a forward pass that leaves `values` in `out`."""
        bits = bits_of(values, out.dtype)
        pointer = self.ffi.NULL if stream is None else stream.pointer
        for i in range(len(bits)):
            row = np.ascontiguousarray(bits[i])
            self.check(
                "sim_produce",
                self.lib.sim_produce(out.row_pointer(i), self.ffi.from_buffer(row), row.nbytes, pointer),
            )

    def pool(self, n_bytes: int) -> SimArray:
        """Some memory, for `LibraryBackend(allocate=...)`. Raises MemoryError if there is none."""
        try:
            return self.empty((n_bytes,), "uint8")
        except SimError as error:
            raise MemoryError(str(error)) from error

    # --- counters and failures -----------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        """`sim_counters`."""
        out = self.ffi.new("sim_counters *")
        self.lib.sim_count(out)
        return {name: int(getattr(out, name)) for name, _ in self.ffi.typeof("sim_counters").fields}

    @contextmanager
    def counted(self) -> Iterator[dict[str, int]]:
        """How the counters have changed, once the block is done."""
        before, changes = self.counters(), dict[str, int]()
        yield changes
        changes |= {name: value - before[name] for name, value in self.counters().items()}

    def fail(self, call: str, code: str = "SIM_FAILED", *, skip: int = 0, times: int = 1) -> None:
        """Let `skip` calls of `call` pass, and the next `times` fail; names as in sim_device.h."""
        self.check("sim_fail", self.lib.sim_fail(call.encode(), skip, times, self.number(code)))

    @property
    def failures_left(self) -> int:
        """How many failures have been asked for and have not happened."""
        return int(self.lib.sim_failures_left())

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """No failures in the block, which is not counted among the calls that pass."""
        self.lib.sim_hold_failures(1)
        try:
            yield
        finally:
            self.lib.sim_hold_failures(0)

    def remove_operator(self, name: str) -> None:
        """Be an older version, without an operator."""
        self.check("sim_remove_operator", self.lib.sim_remove_operator(name.encode()))

    def reset(self) -> None:
        """Be like new, but for what is live."""
        self.keeps_memory = False
        self.lib.sim_work_in_background(0)
        self.lib.sim_reset()

    def configure(self, **settings: Any) -> None:
        """What the library serves from now on: fields of `sim_settings`; without any, all that it can."""
        struct = self.ffi.new("sim_settings *")
        self.lib.sim_default_settings(struct)
        for name, value in settings.items():
            setattr(struct, name, value)
        self.lib.sim_configure(struct)

    @property
    def contexts(self) -> int:
        """How many contexts of the library are open."""
        return int(self.lib.sim_contexts())


def bits_of(values: np.ndarray, dtype: str) -> np.ndarray:
    """`values` as an array of `dtype`; bfloat16 as uint16 that holds its bits."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded: np.ndarray = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return rounded.astype(np.uint16)


@functools.cache
def sim_device() -> SimDevice:
    """The device of this process, with the library of the installation or, without one, a new one."""
    installed = installed_library()
    if installed is not None:
        return SimDevice(installed)
    folder = tempfile.mkdtemp(prefix="sim-device-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return SimDevice(compile_library(Path(folder) / LIBRARY.name))


def _declarations(header: Path) -> str:
    """The text between the marks of a header, as cffi reads it."""
    text = header.read_text(encoding="utf-8")
    return re.split(r"/\* cdef: (?:begin|end) \*/", text)[1]
