"""Logits on the simulated chip, as an engine has them: arrays that export themselves through DLPack."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from ascend_harness import BFLOAT16, FORMS, NPU, Chip


class NpuArray:
    """Rows [rows, width] on "npu:0". Reading them through NumPy copies them, which `read` counts."""

    device = "npu:0"

    def __init__(self, chip: Chip, elements: np.ndarray) -> None:
        self.chip, self.shape = chip, elements.shape
        self.dtype = BFLOAT16 if elements.dtype == np.uint16 else str(elements.dtype)
        self._holds = elements.dtype
        self.address = chip.upload(np.ascontiguousarray(elements))
        self.read = 0

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.asarray(self)[rows]

    def __len__(self) -> int:
        return int(self.shape[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self.read += 1
        return self.chip.download(self.address, self.shape, self._holds)

    def __dlpack_device__(self) -> tuple[int, int]:
        return NPU, 0

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        code, bits, _ = FORMS[self.dtype]
        managed = _Managed(data=self.address, device_type=NPU, ndim=2, code=code, bits=bits, lanes=1)
        managed.shape = (ctypes.c_int64 * 2)(*self.shape)
        self._exported = managed  # as long as the logits
        return _new_capsule(ctypes.addressof(managed), _NAME, None)

    def free(self) -> None:
        self.chip.free(self.address)


class _Managed(ctypes.Structure):
    """DLPack's DLManagedTensor, without a deleter."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


_NAME = b"dltensor"
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
