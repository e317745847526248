"""Triton's interpreter, made bearable: it patches `triton.language` anew in every call of a device
function, which takes about two times as long as the arithmetic. Here it is patched once for each kernel.
What is computed is the same.

`launch_compiled` stands for `launch` on a card: it gives something to start again, which takes addresses.
"""

from __future__ import annotations

import ctypes
import types
from typing import Any

import numpy as np
import torch
import triton.language as tl
from engine_sampler_torch.kernels import launching, scan
from triton.runtime import interpreter


class _Unpatched:
    def restore(self) -> None:
        """Nothing was patched."""


def patch_once() -> None:
    """From now on, only the outermost call patches `triton.language`, for kernels and device functions
    alike."""
    original = interpreter._patch_lang
    both = types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
    depth = 0

    class Scope:
        def __init__(self) -> None:
            self.inner = original(both)

        def restore(self) -> None:
            nonlocal depth
            depth -= 1
            self.inner.restore()

    def patch(fn: Any) -> Any:
        nonlocal depth
        if depth:
            return _Unpatched()
        depth += 1
        return Scope()

    interpreter._patch_lang = patch
    _reduce_at_once()
    _widen_exactly()


def _widen_exactly() -> None:
    """bfloat16 to float32 as every card does it, by its bits: the interpreter takes denormal numbers for
    others."""
    original = interpreter._convert_float

    def convert(values: Any, before: Any, after: Any, rounding: Any) -> Any:
        if before == tl.bfloat16 and after == tl.float32:
            return np.asarray(values).view(np.uint16).astype(np.uint32) << 16
        return original(values, before, after, rounding)

    interpreter._convert_float = convert


def _reduce_at_once() -> None:
    """NumPy's maximum, which is NaN if one is, in the place of `greater_of` for one pair after the other."""
    original = interpreter.ReduceOps.apply_impl

    def apply(self: Any, values: Any) -> Any:
        if self.combine_fn is scan.greater_of:
            return self.min_max(values[0], val_reduce_op=np.max)
        return original(self, values)

    interpreter.ReduceOps.apply_impl = apply


def launch_compiled(
    kernel: Any, grid: tuple[int, ...], *arguments: Any, warps: int, **constants: Any
) -> InterpretedAgain:
    """`launch`, and what stands for the compiled kernel."""
    launching.launch(kernel, grid, *arguments, warps=warps, **constants)
    return InterpretedAgain(kernel, arguments)


class InterpretedAgain:
    """Takes arguments as a compiled kernel does: all by position, the constants too, tensors as addresses.
    It holds no tensor, so that it shows who does."""

    def __init__(self, kernel: Any, arguments: tuple[Any, ...]) -> None:
        self._kernel = kernel
        self._of = [(a.dtype, a.numel()) if isinstance(a, torch.Tensor) else None for a in arguments]

    def __getitem__(self, grid: tuple[int, int, int]) -> Any:
        def start(*given: Any) -> None:
            assert len(given) == len(self._kernel.arg_names)
            tensors = [a if of is None else _at(a, *of) for a, of in zip(given, self._of, strict=False)]
            constants = given[len(tensors) :]
            names = self._kernel.arg_names[len(tensors) :]
            self._kernel[grid](*tensors, **dict(zip(names, constants, strict=True)))

        return start


def _at(address: int, dtype: torch.dtype, size: int) -> torch.Tensor:
    """The tensor at an address."""
    memory = (ctypes.c_char * (size * dtype.itemsize)).from_address(address)
    return torch.from_numpy(np.frombuffer(memory, np.uint8)).view(dtype)
