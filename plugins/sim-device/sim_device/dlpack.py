"""Capsules of DLPack, as arrays of a device export themselves."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .device import SimDevice

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def new_capsule(device: SimDevice, export: Any) -> Any:
    """A capsule of what `sim_export` returned."""
    ffi, lib = device.ffi, device.lib
    addresses = (export, lib.sim_capsule_name(), lib.sim_destroy_capsule)
    return _new(*(int(ffi.cast("uintptr_t", address)) for address in addresses))


def offer_capsule_functions(device: SimDevice) -> None:
    """Let the library handle capsules that die."""
    functions = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
    addresses = (ctypes.cast(function, ctypes.c_void_p).value for function in functions)
    device.lib.sim_set_capsule_functions(*(device.ffi.cast("void *", address) for address in addresses))
