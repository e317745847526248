"""Devices as frameworks name them, and as DLPack numbers them."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any

from ..binding import Device

_TYPES = {
    "cuda": 2,
    "gpu": 2,
    "mps": 8,
    "metal": 8,
    "rocm": 10,
    "hip": 10,
    "npu": 12,
    "privateuse": 12,
    "xpu": 14,
}
"""DLPack's device types by what the names of devices contain: "cuda:0", "<CUDA Device 0>", "npu:1"."""

KINDS = tuple(dict.fromkeys(_TYPES.values()))
"""The types of devices that a library may be opened for, beside the host's memory."""


@functools.lru_cache(maxsize=256)
def device_of(name: str) -> Device | None:
    """The device that frameworks name `name`; None if its kind is not known."""
    kind = next((number for part, number in _TYPES.items() if part in name.lower()), None)
    index = re.search(r"\d+", name)
    return None if kind is None else Device(kind, int(index[0]) if index else 0)


def name_of(device: Device) -> str:
    """The name of a device, as `device_of` reads it."""
    return f"{next(name for name, number in _TYPES.items() if number == device.type)}:{device.id}"


def stream_of(source: Any) -> int:
    """The address of the stream on which torch goes on with `source`, one of its tensors; 0, the default
    stream, for other arrays and for devices without streams."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(source, torch.Tensor):
        return 0
    module = getattr(torch, source.device.type, None)
    if module is None or not hasattr(module, "current_stream"):
        return 0
    stream = module.current_stream(source.device)
    names = (f"{source.device.type}_stream", "cuda_stream", "sycl_queue")
    return int(next((getattr(stream, name) for name in names if hasattr(stream, name)), 0))
