"""Launches of kernels: one place for their options and their listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Listener = Callable[[Any, tuple[int, ...], tuple[Any, ...], dict[str, Any], int], None]

_listeners: list[Listener] = []
_withheld: list[None] = []
"""An entry for each `withheld` that lasts."""


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, warps: int, **constants: Any) -> Any:
    """Start `kernel` on the current stream; nothing is waited for. Returns what Triton has compiled, None if
    it interprets.

    Fusion of multiplications with additions is always off, whatever the default of this version of Triton
    is: it would round once where the arithmetic contract rounds twice.
    """
    if _withheld:
        return None
    for listener in _listeners:
        listener(kernel, grid, arguments, constants, warps)
    return kernel[grid](*arguments, **constants, num_warps=warps, enable_fp_fusion=False)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell `listener` of every launch: (kernel, grid, arguments, constants, warps)."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def withheld() -> Iterator[None]:
    """Start nothing: what is left is the host's work."""
    _withheld.append(None)
    try:
        yield
    finally:
        _withheld.pop()
