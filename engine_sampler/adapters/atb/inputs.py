"""Checks of the tensors passed to ATB's operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...arithmetic import FLT_MAX
from .._tensors import dtype_name, to_numpy
from .rows import OperatorInputs, bits_of, half_float_table

MAX_ROWS = 512
_HALVES = ("float16", "bfloat16")


def checked_inputs(given: Mapping[str, Any], shared_topk: int, observed: bool) -> OperatorInputs:
    """The tensors in `given` as `OperatorInputs`; if topk is None, `shared_topk` applies to all rows.

    `observed` selects the limits of topk. Raises TypeError for wrong dtypes, ValueError for wrong
    shapes and values.
    """
    probs = _tensor("probs", given["probs"], _HALVES)
    if probs.ndim != 2 or not 1 <= len(probs) <= MAX_ROWS or not probs.shape[1]:
        raise ValueError(f"probs has shape {probs.shape}; allowed is [1 to {MAX_ROWS} rows, vocabulary]")
    dtype, (rows, vocab), single = dtype_name(given["probs"]), probs.shape, given["topk"] is None
    topp = _column("topp", given["topp"], (dtype,), rows, one_for_all=single)
    _check_bounds("topp", topp, 0, 1)
    exp, rand = given["exp"], given["rand"]
    if rand is not None:
        rand = _column("rand", rand, ("float32",), rows)
        _check_bounds("rand", rand, 0, 1)
    if exp is not None:
        exp = _tensor("exp", exp, (dtype,)).astype(np.float32)
        if exp.shape != probs.shape:
            raise ValueError(f"exp has shape {exp.shape}; allowed is that of probs, {probs.shape}")
        _check_bounds("exp", exp, 0, float(FLT_MAX))
    if single:
        topk = np.full(rows, vocab if observed and not shared_topk else shared_topk, np.int64)
        low, high = 1, vocab
    else:
        topk = _column("topk", given["topk"], ("int32", "float16"), rows)
        low, high = (0, vocab - 1) if observed else (1, vocab)
    _check_bounds("topk", topk, low, high)
    if (topk != np.rint(topk)).any():
        raise ValueError("topk has a fraction; allowed are whole numbers")
    bits = bits_of(probs, dtype == "bfloat16")
    _check_probabilities(bits, dtype == "bfloat16")
    return OperatorInputs(
        bits, dtype == "bfloat16", topk.astype(np.int64), topp.astype(np.float64), exp, rand
    )


def _tensor(name: str, tensor: Any, dtypes: tuple[str, ...]) -> np.ndarray:
    dtype = dtype_name(tensor)
    if dtype not in dtypes:
        raise TypeError(f"{name} has dtype {dtype}; allowed is {' or '.join(dtypes)}")
    return to_numpy(tensor)


def _column(
    name: str, tensor: Any, dtypes: tuple[str, ...], rows: int, one_for_all: bool = False
) -> np.ndarray:
    """The entries [rows] of a tensor [rows, 1], or [1, 1] if one entry may apply to all rows."""
    column = _tensor(name, tensor, dtypes)
    if column.shape != (rows, 1) and not (one_for_all and column.shape == (1, 1)):
        raise ValueError(f"{name} has shape {column.shape}; allowed is ({rows}, 1)")
    return np.broadcast_to(column[:, 0], rows)


def _check_bounds(name: str, values: np.ndarray, low: float, high: float) -> None:
    wrong = ~((values >= low) & (values <= high))
    if wrong.any():
        raise ValueError(f"{name} has {values[wrong][0]}; allowed are numbers from {low} to {high}")


def _check_probabilities(bits: np.ndarray, bfloat16: bool) -> None:
    table = half_float_table(bfloat16)
    for i, row in enumerate(bits):
        greatest = table.logits[row].max()
        if np.isnan(greatest):
            wrong = table.values[row][np.isnan(table.logits[row])][0]
            raise ValueError(f"row {i} of probs has {wrong}; allowed are numbers from 0 to 1")
        if greatest == -np.inf:
            raise ValueError(f"row {i} of probs is all 0; allowed are rows with a probability above 0")
