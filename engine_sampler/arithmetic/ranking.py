"""Ranking and cutting rows in (logit descending, id ascending) order, with no more sorting than necessary.

These are the sorting helpers for plugin authors too; `engine_sampler.arithmetic` exports them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

NARROW = 1024
"""A row of up to this many columns is simply sorted; a wider one is narrowed down first."""

_HEAD_FLOORS = (-8.0, -16.0, -24.0)
"""The growing heads of a wide row end at these distances from the maximum, in bits."""

_COLUMN_MASK = np.int64(0xFFFFFFFF)


def sort_keys(logits: np.ndarray) -> np.ndarray:
    """int64 keys [n, m] that ascend in (logit desc, column asc) order; the low 32 bits are the column."""
    bits = (logits + np.float32(0)).view(np.int32)  # −0 becomes +0
    descending_bits = ~(bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF)))
    keys = descending_bits.astype(np.int64)
    keys <<= 32
    keys |= np.arange(logits.shape[-1])
    return keys


def descending(logits: np.ndarray) -> np.ndarray:
    """Columns of each row in (logit desc, column asc) order, int64 [n, m]."""
    keys = sort_keys(logits)
    keys.sort(axis=-1)
    keys &= _COLUMN_MASK
    return keys


def top_columns(row: np.ndarray, k: int) -> np.ndarray:
    """The first `k` columns of float32 `row` [m] in order, int64 [k]; k ≤ m."""
    groups = max(1024, 4 * k)
    if k < 1 or 8 * groups > len(row):
        return _first(row, k)
    # The k-th largest maximum of disjoint groups is a lower bound on the k-th largest logit.
    whole = len(row) // groups * groups
    maxima = row[:whole].reshape(-1, groups).max(axis=0)
    maxima.partition(groups - k)
    columns = np.flatnonzero(row >= maxima[groups - k])
    return columns[_first(row[columns], k)]


def _first(row: np.ndarray, k: int) -> np.ndarray:
    """The first `k` columns in order; sorts only these."""
    keys = sort_keys(row)
    if k < len(row):
        keys.partition(k)
        keys = keys[:k]
    keys.sort()
    keys &= _COLUMN_MASK
    return keys


def first_columns(logits: np.ndarray, k: int) -> np.ndarray:
    """The first `k` columns of each row in order, int64 [n, k]; k ≤ m."""
    if logits.shape[1] <= NARROW:
        return descending(logits)[:, :k]
    return np.stack([top_columns(row, k) for row in logits])


def reorder(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """values[i, order[i, j]] for `values` [n, m] and `order` [n, k]."""
    picked: np.ndarray = values[np.arange(len(order))[:, None], order]
    return picked


def keep_first(order: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """bool [n, m]: the first `counts` [n] columns of each row's `order` [n, m]."""
    n, m = order.shape
    mask = np.empty(order.shape, bool)
    mask[np.arange(n)[:, None], order] = np.arange(m) < counts[:, None]
    return mask


def keep_leading(logits: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """bool [n, m]: the first `counts` [n] ≥ 1 tokens of each row in (logit desc, id asc) order."""
    n, m = logits.shape
    if m <= NARROW:
        return keep_first(descending(logits), counts)
    mask = np.zeros((n, m), bool)
    for i, k in enumerate(np.minimum(counts, m).tolist()):
        mask[i, top_columns(logits[i], k)] = True
    return mask


def keep_prefix(
    logits: np.ndarray, y: np.ndarray, count: Callable[[slice, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Keep the first `count` columns of each row in (logit desc, id asc) order; bool [n, m].

    count(rows, order) receives a slice of rows and their ordered columns [n', k], and returns how many
    stay, int64 [n']. For a wide row it first receives only the columns within 8, 16 and 24 bits of the
    maximum: a count below k is final, so it may depend only on the columns up to the cut. `y` are the
    distances of `logits`.
    """
    n, m = logits.shape
    if m <= NARROW:
        order = descending(logits)
        return keep_first(order, count(slice(None), order))
    mask = np.zeros((n, m), bool)
    for i in range(n):
        mask[i, _wide_prefix(logits[i], y[i], partial(count, slice(i, i + 1)))] = True
    return mask


def _wide_prefix(row: np.ndarray, y: np.ndarray, count: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    for floor in _HEAD_FLOORS:
        columns = np.flatnonzero(y >= np.float32(floor))
        head = columns[descending(row[columns])]
        kept = int(count(head[None])[0])
        if kept < len(head):
            return head[:kept]
    columns = np.flatnonzero(row > -np.inf)
    head = columns[descending(row[columns])]
    return head[: int(count(head[None])[0])]


def keep_heavy(logits: np.ndarray, w: np.ndarray, need: np.ndarray) -> np.ndarray:
    """Keep the longest prefix of tokens with weight ≥ `need` [n], at least the first; bool [n, m].

    Equal logits have equal weights, so the prefix consists of the tokens above the best failing logit.
    """
    return keep_above_best(logits, w < need[:, None])


def keep_above_best(logits: np.ndarray, failing: np.ndarray) -> np.ndarray:
    """bool [n, m]: the tokens with a logit above that of every failing token, at least the first in order."""
    best = np.where(failing, logits, -np.inf).max(axis=1, keepdims=True)
    mask = logits > best
    empty = ~mask.any(axis=1)
    if empty.any():
        rows = np.flatnonzero(empty)
        mask[rows, logits[rows].argmax(axis=1)] = True
    return mask
