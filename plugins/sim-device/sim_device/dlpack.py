"""Capsules of DLPack, as arrays of a device export themselves."""

from __future__ import annotations

import ctypes
from typing import Any

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _ManagedTensor(ctypes.Structure):
    """DLPack's DLManagedTensor."""

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
        ("deleter", _Deleter),
    ]


_exported: dict[int, tuple[_ManagedTensor, Any]] = {}
"""What consumers have not released yet, with the owner of its memory, by address."""


def exported_count() -> int:
    """How many arrays consumers hold."""
    return len(_exported)


def capsule_of(
    address: int,
    device: tuple[int, int],
    kind: tuple[int, int],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    owner: Any,
) -> Any:
    """A capsule "dltensor" of memory that `owner` keeps; `kind` is (code, bits), strides count elements."""
    ndim = len(shape)
    tensor = _ManagedTensor(
        data=address,
        device_type=device[0],
        device_id=device[1],
        ndim=ndim,
        code=kind[0],
        bits=kind[1],
        lanes=1,
        shape=(ctypes.c_int64 * ndim)(*shape),
        strides=(ctypes.c_int64 * ndim)(*strides),
        deleter=_DELETE,
    )
    place = ctypes.addressof(tensor)
    _exported[place] = tensor, owner
    return _new_capsule(place, _NAME, _DESTROY)


def _delete(place: int) -> None:
    _exported.pop(place, None)


def _destroy(capsule: int) -> None:
    """A capsule that nobody has taken anything from, or that has been used up."""
    if _is_valid(capsule, _NAME):
        _delete(_pointer_in(capsule, _NAME))


_NAME = b"dltensor"
_DELETE = _Deleter(_delete)
_DESTROY = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy)
for _function in (_DELETE, _DESTROY):  # capsules may be freed after this module
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
