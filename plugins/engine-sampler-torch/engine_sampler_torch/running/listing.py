"""`Lists`: the tokens that penalties and biases list, for many rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_ROW_SHIFT = 32
"""Token t of row r is sorted as r · 2^32 + t."""


class Lists(NamedTuple):
    """What m rows list, row after row, ascending by id.

    entries  (ids, how often they are in the first window and in the second one, int64 [entries] each; biases
             float32 [entries]).
    lengths  int64 [m], how many entries each row has.
    """

    entries: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    lengths: np.ndarray

    @classmethod
    def of(
        cls,
        rows: int,
        windows: Sequence[tuple[np.ndarray, np.ndarray]],
        biases: Sequence[tuple[np.ndarray, np.ndarray]],
    ) -> Lists:
        """`windows`: none, or the tokens of the rows in two windows, row after row, and how many each has,
        int64; `biases`: for each row ids int64 and the values float32 that are added to their logits, [] for
        none."""
        windowed = [_counted(_keys(*window)) for window in windows[:1]]
        windowed += [
            windowed[0] if window is windows[0] else _counted(_keys(*window)) for window in windows[1:]
        ]
        added = np.zeros(0, np.int64), np.zeros(0, np.float32)
        if biases:
            ids = np.concatenate([ids for ids, _ in biases])
            values = np.concatenate([values for _, values in biases])
            added = _keys(ids, np.array([len(ids) for ids, _ in biases])), values
        if windowed and windowed[1] is windowed[0] and not len(added[0]):
            every = windowed[0][0]
        else:
            every, _ = _counted(np.concatenate([keys for keys, _ in (*windowed, added)]))
        nothing = np.zeros(len(every), np.int64)
        seen, counted = (_spread(every, *one) for one in windowed) if windowed else (nothing, nothing)
        return cls(
            (every & ((1 << _ROW_SHIFT) - 1), seen, counted, _spread(every, *added)),
            np.bincount(every >> _ROW_SHIFT, minlength=rows),
        )

    def padded(self, entries: np.ndarray, fill: Any, dtype: np.dtype[Any], width: int) -> np.ndarray:
        """One of `entries` as a table [m, width] with `fill` behind each row."""
        table: np.ndarray = np.full((len(self.lengths), width), fill, dtype)
        table.reshape(-1)[flat_places(np.arange(len(table)) * width, self.lengths)] = entries
        return table


def flat_places(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The places of some runs, one after the other, that begin at `starts` and have these `lengths`, both
    int64 [m]."""
    before = np.cumsum(lengths) - lengths
    places: np.ndarray = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
    return places


def _keys(tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The sort keys of the tokens of rows with these lengths, int64."""
    keys: np.ndarray = np.repeat(np.arange(len(lengths)) << _ROW_SHIFT, lengths) | tokens
    return keys


def _counted(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """These keys, each once and ascending, and how often they are there."""
    # This sorts: without counts, it would hash, and take ten times as long.
    every, counts = np.unique(keys, return_counts=True)
    return every, counts


def _spread(every: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`values` in the places that `keys` have among `every`, which are ascending; 0 elsewhere."""
    spread = np.zeros(len(every), values.dtype)
    spread[np.searchsorted(every, keys)] = values
    return spread
