"""Inputs that several steps need, computed on the host."""

from __future__ import annotations

import numpy as np
from engine_sampler import Rows


def draws(rows: Rows, index: int = 0) -> np.ndarray:
    """The bits of 64 random ones for each row, as int64 [n]."""
    return rows.draw(index).view(np.int64)


def least(rows: Rows) -> np.ndarray:
    """max(1, min_keep), int64 [n]."""
    return rows.derived("max(1, min_keep)", lambda group: np.maximum(1, group["min_keep"]))


def greatest_least(rows: Rows) -> int:
    """The greatest `least` of all rows."""
    return int(least(rows).max())
