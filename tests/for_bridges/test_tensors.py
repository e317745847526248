"""Tensors are read as NumPy arrays and returned in kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler.for_bridges import dtype_name, library_of, like, to_numpy

VALUES = np.array([[0.5, -2.0, 1.0]], np.float32)


def library(name: str) -> Any:
    return pytest.importorskip(name)


def test_lists_and_arrays_are_read_by_numpy() -> None:
    assert library_of([1]) is library_of(VALUES) is np
    assert to_numpy(VALUES) is VALUES
    assert to_numpy([1, 2]).tolist() == [1, 2]
    assert (dtype_name(VALUES), dtype_name([1])) == ("float32", "list")


def test_numpy_arrays_are_returned_in_the_requested_dtype() -> None:
    result = like(VALUES, np.array([1, 2]), "int32")
    assert (result.dtype, result.tolist()) == (np.int32, [1, 2])


@pytest.mark.parametrize("name", ["torch", "mlx.core"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_tensor_survives_a_round_trip(name: str, dtype: str) -> None:
    lib = library(name)
    tensor = like(lib.zeros((1,)), VALUES, dtype)
    assert library_of(tensor) is lib
    assert (tensor.dtype, dtype_name(tensor)) == (getattr(lib, dtype), dtype)
    array = to_numpy(tensor)
    assert array.dtype == (np.float16 if dtype == "float16" else np.float32)
    np.testing.assert_array_equal(array, VALUES)


def test_a_tensor_that_requires_gradients_can_be_read() -> None:
    torch = library("torch")
    np.testing.assert_array_equal(to_numpy(torch.tensor(VALUES, requires_grad=True)), VALUES)


def test_bfloat16_of_ml_dtypes_is_widened_and_kept() -> None:
    ml_dtypes = library("ml_dtypes")
    given = VALUES.astype(ml_dtypes.bfloat16)
    assert dtype_name(given) == "bfloat16"
    np.testing.assert_array_equal(to_numpy(given), VALUES)
    assert like(given, VALUES, "bfloat16").dtype == given.dtype
