"""Helpers for samplers that change a few columns of a row, and for truncations."""

from __future__ import annotations

import numpy as np

from ..arithmetic import FLT_MAX
from ..contract import Rows


def finite_columns(
    row: np.ndarray, rows: Rows, i: int, token_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The columns of `token_ids` in row i, without removed ones: (columns, which) as in `Rows.columns`."""
    columns, which = rows.columns(i, token_ids)
    alive = row[columns] > -np.inf
    return columns[alive], which[alive]


def store(row: np.ndarray, columns: np.ndarray, values: np.ndarray) -> None:
    """Store edited logits; an overflow becomes ±FLT_MAX, so that no edit removes a token."""
    row[columns] = np.clip(values, -FLT_MAX, FLT_MAX)


def mask_unless_empty(row: np.ndarray, columns: np.ndarray) -> None:
    """Remove `columns`, or leave the row unchanged if no token would remain."""
    values = row[columns]
    row[columns] = -np.inf
    if row.max() == -np.inf:
        row[columns] = values


def at_least(rows: Rows, logits: np.ndarray) -> np.ndarray:
    """How many tokens a truncation must leave: min(max(1, min_keep), alive), int64 [n]."""
    floor = rows.derived("max(1, min_keep)", lambda group: np.maximum(1, group["min_keep"]))
    if floor.max() == 1:
        return floor
    return np.minimum(floor, (logits > -np.inf).sum(axis=1))
