"""Token masks: int32 `[rows, ceil(vocab / 32)]`, bit t % 32 of word t // 32 allows token t."""

from __future__ import annotations

from typing import Any

import numpy as np


def allocate_bitmask(rows: int, vocab_size: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A mask of `rows` rows that allows every token, int32 `[rows, ceil(vocab_size / 32)]`."""
    return np.full((rows, (vocab_size + 31) // 32), -1, np.int32)


def checked_bitmask(bitmask: Any, words: int) -> tuple[int, int]:
    """The rows of `bitmask` and its words per row.

    Raises TypeError for what is no writable C-contiguous int32 array `[rows, words or more]`.
    """
    if not isinstance(bitmask, np.ndarray) or bitmask.dtype != np.int32:
        kind = bitmask.dtype if isinstance(bitmask, np.ndarray) else type(bitmask).__name__
        raise TypeError(f"bitmask is of {kind}, allowed is a NumPy array of int32")
    shaped = bitmask.ndim == 2 and bitmask.shape[1] >= words
    if not shaped or not bitmask.flags.c_contiguous or not bitmask.flags.writeable:
        raise TypeError(
            f"bitmask has the shape {bitmask.shape}, "
            f"allowed is a writable C-contiguous [rows, {words} or more]"
        )
    return bitmask.shape[0], bitmask.shape[1]
