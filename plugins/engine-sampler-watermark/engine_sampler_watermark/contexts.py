"""The tokens before each token of a text, on which its mark depends."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

MOST_COMPARED = 8192
"""So many earlier contexts are compared with the newest, which bounds the work of a token."""


def newest_context(
    prompt: np.ndarray, output: np.ndarray, width: int, fill: int, most: int = MOST_COMPARED
) -> np.ndarray | None:
    """The context after `output`, int64 [width]; `fill` stands before prompt and output that are shorter.

    None if it stood before an earlier token of the output, too. The mark would be the same, and texts could
    run in circles: such a token is drawn without it.

    prompt  int64, what of the prompt belongs to contexts: all of it, or nothing.
    most    so many earlier contexts are compared.
    """
    output = output[-(most + width) :]
    windows = contexts_of(np.concatenate((prompt[-width:], output)), len(output) + 1, width, fill)
    newest, earlier = windows[-1], windows[-1 - most : -1]
    return None if (earlier == newest).all(axis=1).any() else newest


def rows_by(keys: Iterable[Hashable]) -> dict[Any, list[int]]:
    """The rows of a step by their settings, so that those with the same ones are worked on together."""
    rows: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        rows.setdefault(key, []).append(i)
    return rows


def contexts_of(token_ids: np.ndarray, count: int, width: int, fill: int) -> np.ndarray:
    """The last `count` contexts in `token_ids` and its end, int64 [count, width]."""
    padded = np.concatenate((np.full(width, fill, np.int64), np.asarray(token_ids, np.int64)))
    return np.lib.stride_tricks.sliding_window_view(padded, width)[-count:]


def first_of_each(contexts: np.ndarray) -> np.ndarray:
    """The indices, ascending, of those `contexts` [n, width] that occur for the first time."""
    if not len(contexts):
        return np.zeros(0, np.int64)
    return np.sort(np.unique(contexts, axis=0, return_index=True)[1])
