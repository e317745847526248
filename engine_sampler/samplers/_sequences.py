"""Which of many token sequences end a history, and where the last of them begins in it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator

import numpy as np

_BASE = secrets.randbits(64) | 1
_INVERSE = pow(_BASE, -1, 2**64)
"""Sequences are compared by the sum of (token + 1)·_BASE^index, modulo 2^64, and where the sums are equal
token by token, so that no result depends on the base. A client that knew it could make many sums equal."""


def values_after(history: np.ndarray, tables: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The values, int64, of the sequences that end `history` int64 [n].

    tables  for each length the sequences, int64 [entries, length], and the value of each; one of no tokens
            ends every history.
    """
    found = [np.zeros(0, np.int64)]
    for sequences, values in tables:
        begin = len(history) - sequences.shape[1]
        if begin >= 0:
            found.append(values[(sequences == history[begin:]).all(axis=1)])
    return np.concatenate(found)


class Sequences:
    """Token sequences by their lengths: to look for all those of one length takes one pass over a history."""

    def __init__(self, tokens: np.ndarray, ends: np.ndarray) -> None:
        """tokens, ends  int64, sequences end to end, none empty, and the end of each."""
        starts = np.concatenate([[0], ends[:-1]])[: len(ends)]
        lengths = ends - starts
        terms = (tokens.astype(np.uint64) + np.uint64(1)) * _powers(_BASE, lengths.max(initial=0))[
            np.arange(len(tokens)) - np.repeat(starts, lengths)
        ]
        sums = np.add.reduceat(terms, starts) if len(starts) else terms
        self._tokens = tokens
        self._of_length: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        """Length → the sums of its sequences, ascending, and where each begins."""
        for length in np.unique(lengths).tolist():
            which = np.flatnonzero(lengths == length)
            which = which[np.argsort(sums[which], kind="stable")]
            self._of_length[length] = sums[which], starts[which]

    def last_in(self, window: np.ndarray, places: np.ndarray) -> tuple[int, int]:
        """The last of `places`, ascending, where a sequence begins in `window` int64 [n], and the length of
        the longest that begins there; (−1, 0) if there is none."""
        if not len(places) or not self._of_length:
            return -1, 0
        window, places = window[places[0] :], places - (first := int(places[0]))
        terms = (window.astype(np.uint64) + np.uint64(1)) * _powers(_BASE, len(window))[:-1]
        before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        shifts = _powers(_INVERSE, len(window))[places]
        best = -1, 0
        for length in self._of_length:
            fitting = places[: np.searchsorted(places, len(window) - length, side="right")]
            sums = (before[fitting + length] - before[fitting]) * shifts[: len(fitting)]
            best = max(best, (self._last_equal(length, window, fitting, sums), length))
        return (first + best[0], best[1]) if best[0] >= 0 else (-1, 0)

    def _last_equal(self, length: int, window: np.ndarray, places: np.ndarray, sums: np.ndarray) -> int:
        """The last of `places` where a sequence of this length begins, −1 if none does."""
        known, _ = self._of_length[length]
        found = np.searchsorted(known, sums)
        found[found == len(known)] = 0
        for i in np.flatnonzero(known[found] == sums)[::-1].tolist():
            part = window[places[i] : places[i] + length]
            if any(np.array_equal(part, sequence) for sequence in self._with_sum(length, sums[i])):
                return int(places[i])
        return -1

    def _with_sum(self, length: int, total: np.uint64) -> Iterator[np.ndarray]:
        known, starts = self._of_length[length]
        low, high = np.searchsorted(known, total, "left"), np.searchsorted(known, total, "right")
        return (self._tokens[start : start + length] for start in starts[low:high].tolist())


def _powers(base: int, n: int) -> np.ndarray:
    """base^0 … base^n modulo 2^64, uint64."""
    factors = np.full(n + 1, base, np.uint64)
    factors[0] = 1
    return np.multiply.accumulate(factors)
