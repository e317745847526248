"""Arrays from what plugins return, and from rows of unequal length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import quoted


def array_from(value: Any, most: int) -> np.ndarray:
    """What a plugin returned as an array; raises ValueError for a sequence that is longer than `most` before
    anything is copied."""
    is_sequence = hasattr(value, "__len__") and not hasattr(value, "__array__")
    if is_sequence and len(value) > most:
        raise ValueError(f"{quoted(value)} has more than {most} entries")
    return np.asarray(value)


def padded(lists: Sequence[np.ndarray], fill: Any, dtype: Any, width: int | None = None) -> np.ndarray:
    """Rows of unequal length as one array [n, width], padded with `fill`; `width` is that of the longest if
    it is not given, and never less."""
    out = np.full((len(lists), max(map(len, lists)) if width is None else width), fill, dtype)
    for row, values in zip(out, lists, strict=True):
        row[: len(values)] = values
    return out
