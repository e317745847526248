"""Logits as an `es_tensor`, on its own or inside a larger struct."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arithmetic import LogitRows
from .binding import HOST, Layout
from .header import contract


def type_of(logits: LogitRows) -> tuple[int, int]:
    """DLPack's type code and bits of `logits`."""
    return 4 if logits.bfloat16 else 2, 8 * logits.array.itemsize


def layout_of(logits: LogitRows, vocab_size: int) -> Layout:
    """The memory layout of `logits`."""
    array = logits.array
    compact = len(array) < 2 or array.strides[0] == vocab_size * array.itemsize
    return Layout(*type_of(logits), compact)


def prepare(tensor: Any, code: int, bits: int) -> tuple[Any, Any]:
    """Fill in `tensor`, an `es_tensor`, except for its data. Returns (shape, strides), each int64_t[2],
    which the caller sets and keeps alive. Rows are of type `code` and `bits`; their columns are
    contiguous."""
    ffi = contract()
    shape, strides = ffi.new("int64_t[2]"), ffi.new("int64_t[2]", [0, 1])
    tensor.device_type, tensor.ndim, tensor.lanes = HOST.type, 2, 1
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


class LogitsInput:
    """The `es_tensor` of a call, which points to the logits of one step after another."""

    def __init__(self, tensor: Any, layout: Layout, vocab_size: int) -> None:
        self._tensor = tensor
        self._layout = layout
        self._vocab_size = vocab_size
        self._form: Any = None
        self._shape, self._strides = prepare(tensor, layout.code, layout.bits)
        self._from_buffer = contract().from_buffer

    def point_to(self, logits: LogitRows) -> bool:
        """Point to `logits`, which are not kept alive; False if they have another layout."""
        array = logits.array
        form = array.shape, array.strides, array.dtype, logits.bfloat16
        if form != self._form:
            if layout_of(logits, self._vocab_size) != self._layout:
                return False
            self._form = form
            self._set_form(array)
        flags = array.flags
        if not flags.aligned:  # es_tensor counts in whole elements
            array = self._copied = array.copy(order="C")
            self._form = None
            self._set_form(array)
        if flags.c_contiguous:
            self._tensor.data = self._from_buffer(array)
        else:
            self._tensor.data = contract().cast("void *", array.__array_interface__["data"][0])
        return True

    def _set_form(self, array: np.ndarray) -> None:
        self._shape[0], self._shape[1] = array.shape
        self._strides[0] = array.strides[0] // array.itemsize
