"""Arrays on a device, in memory of a library, that any framework can take over through DLPack."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, NamedTuple

from ....base.packaged import load_functions
from ..binding import Device
from ..header import contract
from .memory import MemoryBlock
from .names import name_of

_NAME = b"dltensor"
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class DeviceArray:
    """A compact array on a device, in memory of a library, for any framework that reads DLPack:
    `torch.from_dlpack(array)`, `cupy.from_dlpack(array)`, `jax.dlpack.from_dlpack(array)`.

    shape, dtype  as of NumPy's arrays; dtype is a name.
    device        the device's name; `__dlpack_device__` gives its numbers.
    pointer       the address of its memory, a `void *`.

    The values of tokens are written in the order of the stream on which the step's logits were ready.
    """

    def __init__(
        self, block: MemoryBlock, shape: tuple[int, ...], device: tuple[int, int], dtype: str = "int64"
    ) -> None:
        self._block = block
        self._numbers = device
        self.shape = shape
        self.dtype = dtype
        self.device = name_of(Device(*device))

    @property
    def pointer(self) -> Any:
        return self._block.pointer

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._numbers

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        collect_released()
        managed = _Managed()
        managed.data = int(contract().cast("uintptr_t", self._block.pointer))
        managed.device_type, managed.device_id = self._numbers
        managed.code, managed.bits = _TYPES[self.dtype]
        managed.ndim, managed.lanes = len(self.shape), 1
        managed.shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        managed.manager_ctx = ctypes.addressof(managed) + _Managed.released.offset
        managed.deleter = _deleter()
        capsule = _new_capsule(ctypes.addressof(managed), _NAME, None)
        _EXPORTED.append(_Export(managed, capsule, self._block))
        return capsule

    def __del__(self) -> None:
        collect_released()


_TYPES = {"int64": (0, 64), "float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16)}
"""DLPack's type code and bits."""


class _Managed(ctypes.Structure):
    """DLPack's DLManagedTensor, and whether its deleter has been called."""


_Managed._fields_ = [
    ("data", ctypes.c_void_p),
    ("device_type", ctypes.c_int32),
    ("device_id", ctypes.c_int32),
    ("ndim", ctypes.c_int32),
    ("code", ctypes.c_uint8),
    ("bits", ctypes.c_uint8),
    ("lanes", ctypes.c_uint16),
    ("shape", ctypes.POINTER(ctypes.c_int64)),
    ("strides", ctypes.c_void_p),
    ("byte_offset", ctypes.c_uint64),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", _Deleter),
    ("released", ctypes.c_int32),
]


class _Export(NamedTuple):
    """An array that a framework may use: the memory stays as long as it does."""

    managed: _Managed
    capsule: Any
    block: MemoryBlock

    @property
    def is_unused(self) -> bool:
        """Whether its deleter has been called, or nobody has the capsule, or ever took anything from it."""
        is_ours = sys.getrefcount(self.capsule) == _OWN_REFERENCES
        return bool(self.managed.released) or (is_ours and _is_valid(self.capsule, _NAME))


_OWN_REFERENCES = 2
"""That of the tuple, and that of the call that asks."""

_EXPORTED: list[_Export] = []


def collect_released() -> None:
    """Forget the arrays that no framework uses any more. Capsules have no destructors for that, which would
    run Python while exceptions are being raised."""
    if _EXPORTED:
        _EXPORTED[:] = [export for export in _EXPORTED if not export.is_unused]


@functools.cache
def _deleter() -> Any:
    """What frameworks call: in C where the package has been compiled."""
    loaded = load_functions("engine_sampler_arrays.h", "es_release_array")
    if loaded is None:
        return _Deleter(_release)
    library, ffi = loaded
    address = int(ffi.cast("uintptr_t", ffi.addressof(library, "es_release_array")))
    return _Deleter(address)


def _release(address: int) -> None:
    _Managed.from_address(address).released = 1


_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
