"""Logits on an NPU, as an engine has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BFLOAT16 = "bfloat16"
FORMS = ("float32", "float16", BFLOAT16)
"""The types of logits."""

Place = Callable[[np.ndarray], Any]
"""Puts logits on the NPU: float32 or float16 [rows, vocab], or uint16 that holds the bits of bfloat16."""


def rounded(logits: np.ndarray, form: str) -> np.ndarray:
    """float32 `logits` in another type; bfloat16 as the bits of the nearest ones, uint16."""
    if form != BFLOAT16:
        return logits.astype(form)
    bits = np.ascontiguousarray(logits, np.float32).view(np.uint32)
    nearest = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(logits), np.uint16(0x7FC0), nearest)


def floats(elements: np.ndarray) -> np.ndarray:
    """The float32 values of what `rounded` returns."""
    if elements.dtype != np.uint16:
        return elements.astype(np.float32)
    return (elements.astype(np.uint32) << 16).view(np.float32)


def tensors_on(device: str) -> Place:
    """Places logits as tensors of torch_npu. Raises ImportError without torch or torch_npu, RuntimeError for
    a device that is not there."""
    import torch
    import torch_npu  # noqa: F401

    torch.zeros(1).to(device)

    def place(elements: np.ndarray) -> Any:
        if elements.dtype == np.uint16:
            return torch.from_numpy(elements.view(np.int16)).to(device).view(torch.bfloat16)
        return torch.from_numpy(elements).to(device)

    return place
