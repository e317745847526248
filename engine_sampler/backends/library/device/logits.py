"""Logits on a device as an `es_tensor`, through DLPack."""

from __future__ import annotations

import ctypes
from typing import Any

from ....arithmetic import LogitRows
from ....arithmetic.logits import OnStream, RemoteRows
from ....base.errors import INTERRUPTIONS
from ..binding import Device, Layout
from ..header import contract, size_of
from .names import stream_of

_ROWS_ALIGNED_TO = 1 << 12
"""No device asks for more, in bytes."""


class DeviceTensor:
    """Logits where they lie, for as long as this object lives.

    pointer    an `es_tensor *`: DLPack's, which the array has exported.
    layout     their memory layout, `stride` the elements from row to row.
    alignment  the greatest power of two, in bytes, that every row is aligned to.
    stream, ready  where in the device's order of work they are ready, as in `es_batch`.
    """

    def __init__(self, source: Any, order: OnStream | None, vocab_size: int) -> None:
        self._capsule, self.pointer = exported(source, order)
        self.stream, self.ready = (order.stream, order.ready) if order else (stream_of(source), 0)
        tensor = self.pointer
        if tensor.ndim != 2 or tensor.lanes != 1 or (tensor.strides and tensor.strides[1] != 1):
            raise ValueError("the logits are not rows of contiguous columns")
        width = tensor.shape[1]
        self.stride = int(tensor.strides[0] if tensor.strides else width)
        if width < vocab_size or (self.stride < width and tensor.shape[0] > 1):
            raise ValueError("the logits are not rows of a whole vocabulary")
        self.address = int(contract().cast("uintptr_t", tensor.data)) + tensor.byte_offset
        device = Device(tensor.device_type, tensor.device_id)
        self.layout = Layout(tensor.code, tensor.bits, self.stride == vocab_size, device)
        bits = self.address | self.stride * (tensor.bits // 8) | _ROWS_ALIGNED_TO
        self.alignment = bits & -bits


def device_tensor(logits: LogitRows) -> DeviceTensor | None:
    """The logits of a step where they lie on a device, exported once; None for logits on the host, and for
    arrays that do not export themselves as DLPack describes it."""
    remote: RemoteRows | None = logits.remote
    if remote is None:
        return None
    if remote.exported is None:
        try:
            remote.exported = DeviceTensor(logits.source, remote.order, logits.vocab_size)
        except INTERRUPTIONS:
            raise
        except BaseException:  # whatever is wrong with the array: the host reads it in another way
            remote.exported = False
    return remote.exported or None


def exported(array: Any, order: OnStream | None) -> tuple[Any, Any]:
    """(capsule, `es_tensor *`) of an array on a device; the pointer is valid as long as the capsule.

    With a stream, the array makes its values ready for that one, as DLPack has it. torch's tensors are ready
    on their current stream, on which the library works.
    """
    array = array.detach() if hasattr(array, "detach") else array
    options: dict[str, int] = {}
    if order is not None and order.stream:
        options["stream"] = order.stream
    elif stream_of(array):
        options["stream"] = -1  # no order beside that of the stream
    capsule = array.__dlpack__(**options)
    address = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), _NAME)
    ffi = contract()
    pointer = ffi.new("es_tensor *")
    ffi.memmove(pointer, ffi.cast("void *", address), size_of("es_tensor"))
    return capsule, pointer


_NAME = ctypes.c_char_p(b"dltensor")
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
