"""Arrays on a device, in memory of a library, that any framework can take over through DLPack."""

from __future__ import annotations

import ctypes
from typing import Any

from ..binding import Device
from ..header import contract
from .memory import MemoryBlock
from .names import name_of


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
        managed = _Managed()
        managed.data = int(contract().cast("uintptr_t", self._block.pointer))
        managed.device_type, managed.device_id = self._numbers
        managed.code, managed.bits = _TYPES[self.dtype]
        managed.ndim, managed.lanes = len(self.shape), 1
        managed.shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        managed.deleter = _DELETE
        address = ctypes.addressof(managed)
        _EXPORTED[address] = managed, self._block
        return _new_capsule(address, _NAME, _DESTROY)


_TYPES = {"int64": (0, 64), "float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16)}
"""DLPack's type code and bits."""


class _Managed(ctypes.Structure):
    """DLPack's DLManagedTensor."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
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
]

_EXPORTED: dict[int, tuple[_Managed, MemoryBlock]] = {}
"""What consumers of DLPack have not released yet, by address."""

_NAME = b"dltensor"


def _delete(address: int) -> None:
    _EXPORTED.pop(address, None)


def _destroy(capsule: int) -> None:
    """A capsule that nobody has taken anything from, or that has been used up."""
    if _is_valid(capsule, _NAME):
        _delete(_pointer_in(capsule, _NAME))


_DELETE = _Deleter(_delete)
_DESTROY = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy)
for _function in (_DELETE, _DESTROY):  # arrays may be freed after this module
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_function))

_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
