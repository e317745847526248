"""Repeats in a history: the work on them is in proportion to its length, whatever it contains."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..base.packaged import load_histories

_WORK = 64
"""How many comparisons per token are made together, before lengths are found one after the other instead, in
about the same time."""

_ROUND = 2000
"""The comparisons whose time is that of starting them."""


def ends_repeated(history: np.ndarray, limit: int, least: int) -> tuple[np.ndarray, np.ndarray]:
    """(places, lengths), int64 [m] each: how many tokens up to an earlier place in `history` int64 [n] are
    the last ones, of which `limit` count, where these are `least` or more. A place is how many tokens follow,
    from 1 to n − 1, ascending."""
    loaded = _library()
    if loaded is None:
        lengths = repeat_lengths(history[::-1], limit)
        places = np.flatnonzero(lengths[1:] >= least) + 1
        return places, lengths[places]
    search, from_buffer = loaded
    n = len(history)
    table = np.empty((3, n), np.int64)
    count = search(
        n,
        from_buffer("int64_t[]", np.ascontiguousarray(history, np.int64)),
        limit,
        least,
        *(from_buffer("int64_t[]", part) for part in table),
    )
    places, lengths = table[1:, :count].copy()
    return places, lengths


@functools.cache
def _library() -> tuple[Any, Any] | None:
    loaded = load_histories()
    return None if loaded is None else (loaded[0].es_histories_repeats, loaded[1].from_buffer)


def repeat_lengths(tokens: np.ndarray, limit: int) -> np.ndarray:
    """For each index of `tokens` int64 [n], how many tokens from there on equal the first ones, at most
    `limit`; 0 for index 0. int64 [n].

    Indices are compared together, token by token, which ends soon unless much is repeated.
    """
    lengths = np.zeros(len(tokens), np.int64)
    alike = np.arange(1, len(tokens))
    work = 0
    for n in range(limit):
        if len(alike) and alike[-1] + n >= len(tokens):
            alike = alike[: alike.searchsorted(len(tokens) - n)]
        if len(alike):
            alike = alike[tokens[alike + n] == tokens[n]]
        if not len(alike):
            break
        lengths[alike] = n + 1
        work += len(alike) + _ROUND
        if work > _WORK * len(tokens):
            return np.minimum(_z_function(tokens.tolist()), limit)
    return lengths


def _z_function(tokens: list[int]) -> np.ndarray:
    """As `repeat_lengths` without a limit, in linear time: what repeats the beginning is not compared with it
    again."""
    lengths = [0] * len(tokens)
    left = right = 0
    for i in range(1, len(tokens)):
        n = min(right - i, lengths[i - left]) if i < right else 0
        if i + n >= right:
            while i + n < len(tokens) and tokens[i + n] == tokens[n]:
                n += 1
            left, right = i, i + n
        lengths[i] = n
    return np.array(lengths, np.int64)
