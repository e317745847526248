"""Logits in every form an engine provides: NumPy, torch, DLPack, the buffer protocol or `__array__`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .integer_weights import LOGIT_LIMIT

SUPPORTED = ("float32", "float16", "bfloat16")


class LogitRows:
    """Rows of logits [rows, width], width ≥ vocab_size; `row(i)` gives float32 [vocab_size].

    float32 rows are views of the caller's memory and never written to; float16 and bfloat16 rows are
    widened exactly, one at a time. Any row stride is allowed, including 0 and negative ones. Logits on
    another device are copied to the host once; `LogitRows` may itself be passed as `logits`. Raises
    TypeError for other dtypes, ValueError for other shapes.
    """

    __slots__ = ("__weakref__", "array", "bfloat16", "device", "vocab_size")
    array: np.ndarray
    """The rows in memory, [rows, width]; bfloat16 as uint16 that holds its bits. Columns are contiguous, rows
    may have any stride. Must not be written to."""
    bfloat16: bool
    vocab_size: int

    def __init__(self, logits: Any, vocab_size: int) -> None:
        self.device = str(getattr(logits, "device", "cpu"))
        if isinstance(logits, LogitRows):
            array, self.bfloat16 = logits.array, logits.bfloat16
        else:
            array, self.bfloat16 = _as_numpy(logits)
        if array.ndim != 2:
            raise ValueError(f"logits have shape {array.shape}; allowed is [rows, vocab]")
        if array.shape[1] < vocab_size:
            raise ValueError(f"logits are {array.shape[1]} wide; the vocabulary has {vocab_size} tokens")
        if array.shape[1] > 1 and array.strides[1] != array.itemsize:
            array = np.ascontiguousarray(array)
        self.array = array
        self.vocab_size = vocab_size

    @classmethod
    def from_bfloat16_bits(cls, bits: np.ndarray, vocab_size: int) -> LogitRows:
        """bfloat16 rows from their bits, uint16 [rows, width ≥ vocab_size]."""
        rows = cls(bits.view(np.float16), vocab_size)
        rows.array, rows.bfloat16 = rows.array.view(np.uint16), True
        return rows

    def __len__(self) -> int:
        return len(self.array)

    @property
    def width(self) -> int:
        """The number of columns in the input, including padding of the head."""
        return int(self.array.shape[1])

    def row(self, i: int) -> np.ndarray:
        """Row i as float32 [vocab_size]; must not be written to."""
        row = self.array[i, : self.vocab_size]
        if self.bfloat16:
            return (row.astype(np.uint32) << 16).view(np.float32)
        if row.dtype != np.float32:
            return row.astype(np.float32)
        row.flags.writeable = False
        return row


def _as_numpy(logits: Any) -> tuple[np.ndarray, bool]:
    """(array, is_bfloat16): bfloat16 is returned as uint16 that holds its bits."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(logits, torch.Tensor):
        tensor = logits.detach().cpu()
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.uint16).numpy(), True
        array = tensor.numpy()
    elif isinstance(logits, np.ndarray):
        array = np.asarray(logits)  # np.matrix has its own indexing rules
    else:
        array = _from_protocols(logits)
    if array.dtype in (np.float32, np.float16):  # equal only in native byte order
        return array, False
    if array.dtype.name == "bfloat16" and array.dtype.isnative:  # ml_dtypes
        return array.view(np.uint16), True
    raise TypeError(f"logits have dtype {array.dtype}; allowed are {', '.join(SUPPORTED)}")


def _from_protocols(logits: Any) -> np.ndarray:
    """From DLPack, the buffer protocol or `__array__`."""
    if hasattr(logits, "__dlpack__"):
        try:
            return np.from_dlpack(logits)
        except (BufferError, RuntimeError, TypeError):  # a dtype or device for which NumPy has no DLPack
            pass
    try:
        return np.asarray(logits)
    except Exception as error:
        raise TypeError(f"logits of type {type(logits).__name__} cannot be read as an array") from error


class RowFault(Exception):
    """A row cannot yield a token; the message says why."""


def checked_row(row: np.ndarray) -> np.ndarray:
    """float32 `row` [vocab] as input for the chain: raises `RowFault` for NaN, +inf, logits above 2^100 and
    rows without a token; logits below −2^100 become −inf (in a copy)."""
    return peaked_row(row)[0]


def peaked_row(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The result of `checked_row`, and its greatest logit as an array [1]."""
    peak = row.max(keepdims=True)
    if not peak <= LOGIT_LIMIT:
        raise RowFault(f"the row's greatest logit is {peak[0]}; allowed is at most 2^100")
    if peak < -LOGIT_LIMIT:
        raise RowFault("every logit of the row is -inf")
    if row.min() < -LOGIT_LIMIT:
        low = row < -LOGIT_LIMIT
        if np.count_nonzero(low) != np.count_nonzero(row == -np.inf):
            return np.where(low, np.float32(-np.inf), row), peak
    return row, peak
