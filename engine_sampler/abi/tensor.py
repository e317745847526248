"""Logits as an `es_tensor`."""

from __future__ import annotations

from typing import Any

from ..arrays import LogitRows
from .binding import CPU
from .header import contract


class Tensor:
    """`pointer` is an `es_tensor *` to `logits`, as long as this object and the logits live; None where
    their rows do not lie at whole elements."""

    def __init__(self, logits: LogitRows) -> None:
        ffi, array = contract(), logits.array
        self.pointer: Any = None
        if not array.flags.aligned:
            return
        self._shape = ffi.new("int64_t[2]", array.shape)
        self._strides = ffi.new("int64_t[2]", [array.strides[0] // array.itemsize, 1])
        self.pointer = tensor = ffi.new("es_tensor *")
        tensor.data = ffi.cast("void *", array.__array_interface__["data"][0])
        tensor.device_type, tensor.ndim, tensor.lanes = CPU, 2, 1
        tensor.code, tensor.bits = 4 if logits.bfloat16 else 2, 8 * array.itemsize
        tensor.shape, tensor.strides = self._shape, self._strides
