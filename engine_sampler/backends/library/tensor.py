"""Logits as an `es_tensor`, on its own or inside a larger struct."""

from __future__ import annotations

from typing import Any

from ...arithmetic import LogitRows
from .binding import CPU
from .header import contract


def type_of(logits: LogitRows) -> tuple[int, int]:
    """DLPack's type code and bits of `logits`."""
    return 4 if logits.bfloat16 else 2, 8 * logits.array.itemsize


def prepare(tensor: Any, code: int, bits: int) -> tuple[Any, Any]:
    """Fill in `tensor`, an `es_tensor`, except for its data. Returns (shape, strides), each int64_t[2],
    which the caller sets and keeps alive. Rows are of type `code` and `bits`; their columns are
    contiguous."""
    ffi = contract()
    shape, strides = ffi.new("int64_t[2]"), ffi.new("int64_t[2]", [0, 1])
    tensor.device_type, tensor.ndim, tensor.lanes = CPU, 2, 1
    tensor.code, tensor.bits = code, bits
    tensor.shape, tensor.strides = shape, strides
    return shape, strides


class Tensor:
    """`pointer` is an `es_tensor *` to `logits`, as long as this object and the logits live; None if
    their rows are not aligned to whole elements."""

    def __init__(self, logits: LogitRows) -> None:
        ffi, array = contract(), logits.array
        self.pointer: Any = None
        if not array.flags.aligned:
            return
        self.pointer = ffi.new("es_tensor *")
        self._shape, self._strides = prepare(self.pointer, *type_of(logits))
        self._shape[0], self._shape[1] = array.shape
        self._strides[0] = array.strides[0] // array.itemsize
        self.pointer.data = ffi.cast("void *", array.__array_interface__["data"][0])
