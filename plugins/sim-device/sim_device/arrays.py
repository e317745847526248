"""Arrays in the device's memory, with as much of an array as samplers ask for."""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from .dlpack import new_capsule

if TYPE_CHECKING:
    from .device import SimDevice

_TYPES = {
    "float32": (np.float32, 2),
    "float16": (np.float16, 2),
    "bfloat16": (np.uint16, 4),
    "int64": (np.int64, 0),
    "uint8": (np.uint8, 1),
}
"""NumPy's type for the bits of each dtype, and DLPack's code for it."""


class SimArray:
    """An array of the device: what an engine holds its logits in.

    shape, dtype  as of NumPy's arrays, the dtype by name.
    device        "npu:0".

    Slices are views, rows by an array of indices are copied on the device; `__array__` copies to the host.
    """

    device = "npu:0"

    def __init__(
        self, device: SimDevice, owner: Any, address: int, shape: tuple[int, ...], stride: int, dtype: str
    ) -> None:
        self._device, self._owner, self._address = device, owner, address
        self._stride = stride
        self.shape, self.dtype = shape, dtype
        self.itemsize = np.dtype(_TYPES[dtype][0]).itemsize

    @classmethod
    def new(cls, device: SimDevice, shape: tuple[int, ...], dtype: str) -> SimArray:
        """A compact array full of arbitrary bytes."""
        out = device.ffi.new("void **")
        n_bytes = int(np.prod(shape)) * np.dtype(_TYPES[dtype][0]).itemsize
        device.check("sim_allocate", device.lib.sim_allocate(n_bytes, out))
        return cls(device, _Memory(device, out[0]), _address(device, out[0]), shape, shape[-1], dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def row_pointer(self, i: int) -> Any:
        """The address of a row, as a `void *`."""
        return self._device.ffi.cast("void *", self._address + i * self._stride * self.itemsize)

    def __getitem__(self, where: Any) -> SimArray:
        rows, columns = where if isinstance(where, tuple) else (where, slice(None))
        start, stop, step = columns.indices(self.shape[-1])
        if step != 1:
            raise IndexError(f"columns {columns} are not contiguous")
        if not isinstance(rows, slice):
            return self._gathered(np.asarray(rows))[:, columns]
        first, last, step = rows.indices(self.shape[0])
        address = self._address + (first * self._stride + start) * self.itemsize
        shape = (len(range(first, last, step)), stop - start)
        return SimArray(self._device, self._owner, address, shape, self._stride * step, self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False or self.dtype == "bfloat16":
            raise ValueError("an array of the device is read in a copy, and bfloat16 in another way")
        return self.bits().astype(dtype or self.dtype)

    def bits(self) -> np.ndarray:
        """A copy on the host; bfloat16 as uint16 that holds its bits."""
        with self._calm():
            return self._read()

    def _calm(self) -> AbstractContextManager[None]:
        """The engine's own calls do not fail where its memory outlives the device."""
        return self._device.undisturbed() if self._device.keeps_memory else nullcontext()

    def _read(self) -> np.ndarray:
        rows, width = (1, self.shape[0]) if len(self.shape) == 1 else self.shape
        out: np.ndarray = np.empty((rows, width), _TYPES[self.dtype][0])
        for i in range(rows):
            to = self._device.ffi.from_buffer(out[i], require_writable=True)
            self._copy(to, self.row_pointer(i), out[i].nbytes)
        return out.reshape(self.shape)

    def _gathered(self, rows: np.ndarray) -> SimArray:
        """Some rows, copied on the device."""
        with self._calm():
            out = SimArray.new(self._device, (len(rows), self.shape[1]), self.dtype)
            for i, row in enumerate(rows.tolist()):
                self._copy(out.row_pointer(i), self.row_pointer(row), self.shape[1] * self.itemsize)
        return out

    def _copy(self, to: Any, source: Any, n_bytes: int) -> None:
        ffi = self._device.ffi
        self._device.check("sim_copy", self._device.lib.sim_copy(to, source, n_bytes, ffi.NULL))

    # --- DLPack -----------------------------------------------------------------------------------

    def __dlpack_device__(self) -> tuple[int, int]:
        return (12, 0)

    def __dlpack__(self, *, stream: Any = None, dl_device: Any = None, **options: Any) -> Any:
        if dl_device not in (None, (12, 0)):
            raise BufferError(f"an array of the device is not exported to {dl_device}")
        strides = (self._stride, 1)[-len(self.shape) :] if len(self.shape) > 1 else (1,)
        code, bits = _TYPES[self.dtype][1], 8 * self.itemsize
        export = self._device.lib.sim_export(
            self._owner.pointer, self.row_pointer(0), code, bits, len(self.shape), self.shape, strides
        )
        if not export:
            raise MemoryError("no memory to export an array")
        return new_capsule(self._device, export)


class _Memory:
    """A block, given back when nothing refers to it any more."""

    def __init__(self, device: SimDevice, pointer: Any) -> None:
        self.pointer = pointer
        self.free = weakref.finalize(self, device.lib.sim_deallocate, pointer)


def _address(device: SimDevice, pointer: Any) -> int:
    return int(device.ffi.cast("uintptr_t", pointer))
