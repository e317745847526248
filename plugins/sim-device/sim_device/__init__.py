"""A simulated accelerator behind engine-sampler's C interface, and arrays in its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine_sampler.contract import hookimpl
from engine_sampler.for_backends import LibraryBackend

from .arrays import SimArray
from .building import compile_library, kernels
from .device import SimDevice, SimError, SimStream, sim_device

__all__ = ["SimArray", "SimDevice", "SimError", "SimStream", "compile_library", "kernels", "sim_device"]


@hookimpl
def register_backends(register: Callable[[Any], None]) -> None:
    """Called once when engine-sampler loads plugins; the entry point in pyproject.toml names this package."""
    device = sim_device()
    register(LibraryBackend(device.path, name="sim", allocate=device.pool))
