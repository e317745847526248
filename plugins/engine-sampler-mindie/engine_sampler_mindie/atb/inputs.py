"""Checks of the tensors passed to ATB's operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from engine_sampler.for_bridges import dtype_name, library_of, to_numpy, why_unreadable

from .rows import OperatorInputs

_HALVES = ("float16", "bfloat16")

Errors = list[str | None]
"""For each row why it cannot be drawn from, or None."""


def checked_inputs(
    tensors: Mapping[str, Any], shared_topk: int, observed: bool
) -> tuple[OperatorInputs, Errors]:
    """`tensors` as `OperatorInputs`; if topk is None, `shared_topk` applies to all rows.

    `observed` selects the limits of topk. Raises TypeError for wrong dtypes, and ValueError for wrong shapes
    and for a wrong value that applies to all rows; a wrong value of one row is an error of that row. Wrong
    numbers in `probs` and `exp` are found when they are drawn from.
    """
    bits = _half_bits("probs", tensors["probs"], _HALVES)
    if bits.ndim != 2 or not bits.size:
        raise ValueError(f"probs has shape {bits.shape}; allowed is [rows, vocabulary], at least [1, 1]")
    dtype, (rows, vocab), single = dtype_name(tensors["probs"]), bits.shape, tensors["topk"] is None
    errors: Errors = [None] * rows
    topp = _column("topp", tensors["topp"], (dtype,), rows, one_for_all=single)
    _note_outside(errors, "topp", topp, 0, 1)
    exp, rand = tensors["exp"], tensors["rand"]
    if rand is not None:
        rand = _column("rand", rand, ("float32",), rows)
        _note_outside(errors, "rand", rand, 0, 1)
    if exp is not None:
        exp = _half_bits("exp", exp, (dtype,))
        if exp.shape != bits.shape:
            raise ValueError(f"exp has shape {exp.shape}; allowed is that of probs, {bits.shape}")
    if single:
        topk = np.array([vocab if observed and not shared_topk else shared_topk], np.int64)
        low, high = 1, vocab
    else:
        # float16 itself cannot hold the sizes of large vocabularies.
        topk = _column("topk", tensors["topk"], ("int32", "float16"), rows)
        topk = topk if topk.dtype.kind == "i" else topk.astype(np.float64)
        low, high = (0, vocab - 1) if observed else (1, vocab)
    _note_outside(errors, "topk", topk, low, high)
    if topk.dtype.kind == "f":
        for row in np.flatnonzero(topk != np.rint(topk)).tolist():
            errors[row] = errors[row] or "topk has a fraction; allowed are whole numbers"
        topk = np.nan_to_num(topk)
    whole = _for_all(topk.astype(np.int64), rows)
    if observed and not single:
        whole += 1  # there topk is the index of the last token kept
    spread = _for_all(topp.astype(np.float64), rows)
    return OperatorInputs(bits, dtype == "bfloat16", whole, spread, exp, rand), errors


def _for_all(column: np.ndarray, rows: int) -> np.ndarray:
    """One entry for each row: `column`, or its only entry."""
    return column if len(column) == rows else np.full(rows, column[0])


def _half_bits(name: str, tensor: Any, dtypes: tuple[str, ...]) -> np.ndarray:
    """The bits of 16-bit floats as uint16, without a copy if possible."""
    dtype = _checked_dtype(name, tensor, dtypes)
    library = library_of(tensor)
    if library.__name__ == "torch":
        return _read(name, tensor, lambda t: t.detach().cpu().view(library.int16).numpy().view(np.uint16))
    if dtype == "float16" or library is np:
        array = to_numpy(tensor) if dtype == "float16" else np.asarray(tensor)
        return array.view(np.uint16)
    return (to_numpy(tensor).view(np.uint32) >> 16).astype(np.uint16)


def _read(name: str, tensor: Any, read: Callable[[Any], np.ndarray]) -> np.ndarray:
    """`read(tensor)`; raises TypeError for a tensor without values, or of another layout."""
    try:
        return np.asarray(read(tensor))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(why_unreadable(name, tensor, error)) from error


def _checked_dtype(name: str, tensor: Any, dtypes: tuple[str, ...]) -> str:
    dtype = dtype_name(tensor)
    if dtype not in dtypes:
        raise TypeError(f"{name} has dtype {dtype}; allowed is {' or '.join(dtypes)}")
    return dtype


def _column(
    name: str, tensor: Any, dtypes: tuple[str, ...], rows: int, one_for_all: bool = False
) -> np.ndarray:
    """The entries [rows] of a tensor [rows, 1], or [1] of a tensor [1, 1] that may apply to all rows."""
    _checked_dtype(name, tensor, dtypes)
    column = _read(name, tensor, to_numpy)
    if column.shape != (rows, 1) and not (one_for_all and column.shape == (1, 1)):
        raise ValueError(f"{name} has shape {column.shape}; allowed is ({rows}, 1)")
    return column[:, 0]


def _note_outside(errors: Errors, name: str, values: np.ndarray, low: float, high: float) -> None:
    """Note the rows whose value is not within the bounds; raise for the only value of several rows."""
    inside = (values >= low) & (values <= high)
    if inside.all():
        return
    for row in np.flatnonzero(~inside).tolist():
        error = f"{name} has {values[row]:.16g}; allowed are numbers from {low} to {high}"
        if len(values) < len(errors):
            raise ValueError(error)
        errors[row] = errors[row] or error
