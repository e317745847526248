"""The likeliest tokens of rows of 16-bit probabilities, found without sorting the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_FEWEST_MAXIMA = 1024


@dataclass(frozen=True)
class Leading:
    """The likeliest tokens of each row in (probability desc, id asc) order, none of probability 0.

    ids     int64 [B, M]; beyond a row's tokens any ids.
    bits    uint16 [B, M], their probabilities; 0 beyond.
    counts  int64 [B], how many tokens each row has.
    """

    ids: np.ndarray
    bits: np.ndarray
    counts: np.ndarray

    def cut(self, counts: np.ndarray) -> Leading:
        """The first `counts` [B] tokens of each row."""
        width = int(counts.max())
        beyond = np.arange(width) >= counts[:, None]
        return Leading(self.ids[:, :width], np.where(beyond, np.uint16(0), self.bits[:, :width]), counts)

    def by_id(self) -> Leading:
        """The same tokens in ascending order of their ids."""
        beyond = np.arange(self.ids.shape[1]) >= self.counts[:, None]
        order = np.where(beyond, np.int64(2**62), self.ids).argsort(axis=1)
        return Leading(
            np.take_along_axis(self.ids, order, axis=1),
            np.take_along_axis(self.bits, order, axis=1),
            self.counts,
        )


def leading_tokens(bits: np.ndarray, counts: np.ndarray, ties: bool = False) -> Leading:
    """The `counts` [B] likeliest tokens of each row of probabilities, uint16 `bits` [B, V].

    ties  also all tokens that are as likely as the last of them.
    """
    ids, weights = _candidates(bits, np.minimum(counts, bits.shape[1]))
    order = (~weights).argsort(axis=1, kind="stable")  # a radix sort, since these are 16-bit integers
    weights = np.take_along_axis(weights, order, axis=1)
    ids = order if ids is None else np.take_along_axis(ids, order, axis=1)
    positive = np.count_nonzero(weights, axis=1)
    sizes = np.minimum(counts, positive)
    if ties:
        last = np.take_along_axis(weights, np.maximum(sizes - 1, 0)[:, None], axis=1)
        sizes = np.minimum((weights >= last).sum(axis=1), positive)
    return Leading(ids, weights, sizes).cut(sizes)


def _candidates(bits: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """(ids, bits) [B, M] of a superset of the likeliest tokens, ids ascending; for all tokens ids is None.

    The k-th greatest of the maxima of disjoint parts of a row is at most the row's k-th greatest number.
    """
    rows, vocab = bits.shape
    parts = max(_FEWEST_MAXIMA, 4 * int(counts.max()))
    size = vocab // parts
    if size < 4:
        return None, bits
    maxima = np.sort(bits[:, : size * parts].reshape(rows, size, parts).max(axis=1), axis=1)
    threshold = np.maximum(maxima[np.arange(rows), parts - np.maximum(counts, 1)], 1)
    row, column = np.divmod(np.flatnonzero(bits >= threshold[:, None]), vocab)
    sizes = np.bincount(row, minlength=rows)
    if sizes.max() * size > vocab:  # many ties
        return None, bits
    place = np.arange(len(row)) - np.repeat(sizes.cumsum() - sizes, sizes)
    ids = np.zeros((rows, int(sizes.max())), np.int64)
    found = np.zeros(ids.shape, np.uint16)
    ids[row, place] = column
    found[row, place] = bits[row, column]
    return ids, found
