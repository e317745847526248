"""Tensors of any library, read as NumPy arrays and given back in kind: NumPy, torch, MLX, MindSpore."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

_CLASSES = {"torch": "Tensor", "mlx.core": "array", "mindspore": "Tensor"}
"""Libraries by module, and what their arrays are. They are looked up, never imported."""


def library_of(tensor: Any) -> Any:
    """The module to which `tensor` belongs: torch, mlx.core, mindspore, or NumPy for everything else."""
    for name, cls in _CLASSES.items():
        module = sys.modules.get(name)
        if module is not None and isinstance(tensor, getattr(module, cls)):
            return module
    return np


def dtype_name(tensor: Any) -> str:
    """The dtype in words without the library's name, such as "float16"; for what is no array its type."""
    return str(getattr(tensor, "dtype", type(tensor).__name__)).rpartition(".")[2]


def to_numpy(tensor: Any) -> np.ndarray:
    """`tensor` on the host; bfloat16, which NumPy does not know, is widened to float32."""
    library = library_of(tensor)
    if library is not np:
        if dtype_name(tensor).lower() == "bfloat16":  # MindSpore's is called BFloat16
            tensor = tensor.float() if library.__name__ == "torch" else tensor.astype(library.float32)
        if library.__name__ == "torch":
            return np.asarray(tensor.detach().cpu().numpy())
    array = np.asarray(tensor)
    return array.astype(np.float32) if dtype_name(array) == "bfloat16" else array


def like(given: Any, values: np.ndarray, dtype: str) -> Any:
    """`values` as an array of the library and on the device of `given`, in the dtype of that name.

    bfloat16 in NumPy needs `given` to have that dtype, which then stands for it.
    """
    library = library_of(given)
    if library is np:
        return values.astype(given.dtype if dtype_name(given) == dtype else dtype)
    if library.__name__ == "torch":
        return library.from_numpy(values).to(given.device, getattr(library, dtype))
    make = library.Tensor if library.__name__ == "mindspore" else library.array
    return make(values).astype(getattr(library, dtype))
