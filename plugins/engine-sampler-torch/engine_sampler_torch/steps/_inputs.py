"""Inputs that several steps need, computed on the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from engine_sampler.contract import Rows, bitmask_words
from engine_sampler.for_backends import padded

_FEWEST = 16


def draws(rows: Rows, index: int = 0) -> np.ndarray:
    """64 random bits for each row, as int64 [n]."""
    return rows.draw(index).view(np.int64)


def least(rows: Rows) -> np.ndarray:
    """max(1, min_keep), int64 [n]."""
    return rows.derived("max(1, min_keep)", lambda group: np.maximum(1, group["min_keep"]))


def greatest_least(rows: Rows) -> int:
    """The greatest `least` of all rows."""
    return int(least(rows).max())


def id_table(lists: Sequence[np.ndarray], rows: Rows) -> np.ndarray:
    """The token ids of each row, int32 [n, e], padded with the vocabulary's size; see `table`."""
    return table(lists, rows.vocabulary.size, np.int32)


def table(lists: Sequence[np.ndarray], fill: Any, dtype: Any) -> np.ndarray:
    """Rows of unequal length as one array [n, e]; e is 0 or a power of two, so that it changes rarely."""
    longest = max(map(len, lists))
    width = max(_FEWEST, 1 << (longest - 1).bit_length()) if longest else 0
    return padded(lists, fill, dtype, width)


def bitmask_of(lists: Iterable[np.ndarray | None], vocab_size: int) -> np.ndarray:
    """int32 [n, words] with a 1 for each of the token ids of a row; None stands for no ids."""
    return np.stack([_bits(token_ids, vocab_size) for token_ids in lists])


def _bits(token_ids: np.ndarray | None, vocab_size: int) -> np.ndarray:
    bits = np.zeros(32 * bitmask_words(vocab_size), bool)
    if token_ids is not None:
        bits[token_ids] = True
    return np.packbits(bits, bitorder="little").view(np.int32)
