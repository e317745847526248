"""Tensors of NumPy, torch, MLX and MindSpore, read as NumPy arrays and returned in kind."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

_CLASSES = {"torch": "Tensor", "mlx.core": "array", "mindspore": "Tensor"}
"""The array class of each library, by module name. Libraries are looked up, never imported."""


def library_of(tensor: Any) -> Any:
    """The module to which `tensor` belongs: torch, mlx.core, mindspore, or NumPy for everything else."""
    for name, cls in _CLASSES.items():
        module = sys.modules.get(name)
        if module is not None and isinstance(tensor, getattr(module, cls)):
            return module
    return np


def dtype_name(tensor: Any) -> str:
    """The dtype's name without the library's, such as "float16"; for a non-array its type's name."""
    dtype = getattr(tensor, "dtype", None)
    if dtype is None:
        return type(tensor).__name__
    return _name_of_numpy(dtype) if isinstance(dtype, np.dtype) else _name_of(dtype)


def _name_of(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2].lower()  # MindSpore's are called Float16, BFloat16, …


_name_of_numpy = functools.lru_cache(64)(_name_of)  # NumPy takes 5 µs to spell one


def to_numpy(tensor: Any) -> np.ndarray:
    """`tensor` on the host; bfloat16, which NumPy lacks, is widened to float32."""
    library = library_of(tensor)
    if library is not np:
        if dtype_name(tensor) == "bfloat16":
            tensor = tensor.float() if library.__name__ == "torch" else tensor.astype(library.float32)
        if library.__name__ == "torch":
            return np.asarray(tensor.detach().cpu().numpy())
    array = np.asarray(tensor)
    return array.astype(np.float32) if dtype_name(array) == "bfloat16" else array


def why_unreadable(name: str, tensor: Any, error: Exception) -> str:
    """What to say of a `tensor` that NumPy cannot read, of which `error` tells why."""
    kind, names = type(tensor).__name__, ("dtype", "layout", "device")
    details = ", ".join(f"{name} {getattr(tensor, name)}" for name in names if hasattr(tensor, name))
    described = f"{kind} ({details})" if details else kind
    reason = str(error).strip().partition("\n")[0]
    return f"{name} of type {described} is not an array: {reason}"


def unmoved(tensor: Any) -> Any:
    """`tensor` as an array if it lies in the host's memory, else as it is."""
    device = str(getattr(tensor, "device", "cpu"))
    return to_numpy(tensor) if "cpu" in device.lower() else tensor


def rows_of_nan(values: Any) -> np.ndarray:
    """bool [rows], on the host: which rows of `values` [rows, width] begin with NaN."""
    return np.isnan(to_numpy(values[:, 0]))


def like(model: Any, values: Any, dtype: str) -> Any:
    """`values` as an array of `model`'s library, on its device, in the dtype named `dtype`: an array, or a
    tensor of that library.

    For bfloat16 in NumPy, `model` must itself be bfloat16: its dtype object is reused.
    """
    library = library_of(model)
    if library is np:
        return values.astype(model.dtype if dtype_name(model) == dtype else dtype)
    if library.__name__ == "torch":
        tensor = library.from_numpy(values) if isinstance(values, np.ndarray) else values
        return tensor.to(model.device, getattr(library, dtype))
    constructor = library.Tensor if library.__name__ == "mindspore" else library.array
    return constructor(values).astype(getattr(library, dtype))
