"""Rows of ascending token ids in few bytes.

counts  how many ids each row has, as integers.
gaps    how many ids lie between each id and the one before it in its row, as integers.
bits    the rows that are smaller with a bit for each token, whose ids are not among the gaps.

An integer has 7 bits in each of its bytes, the lowest first; all of its bytes but the last have the eighth
bit set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_LONGEST = 5
"""The most bytes of an integer below 2^31."""


class PackedIds(NamedTuple):
    """uint8 [bytes] each, see above."""

    counts: np.ndarray
    gaps: np.ndarray
    bits: np.ndarray


def packed_ids(token_ids: np.ndarray, offsets: np.ndarray, vocab_size: int) -> PackedIds:
    """The rows token_ids[offsets[r] : offsets[r + 1]], ascending ids below `vocab_size`."""
    counts = np.diff(offsets)
    is_dense = _are_dense(counts, vocab_size)
    gaps = np.diff(token_ids, prepend=-1) - 1
    firsts = offsets[:-1][counts > 0]
    gaps[firsts] = token_ids[firsts]
    numbers, width = np.flatnonzero(is_dense).tolist(), -(-vocab_size // 8)
    bits = np.zeros((len(numbers), width), np.uint8)
    for line, row in zip(bits, numbers, strict=True):
        survives = np.zeros(vocab_size, bool)
        survives[token_ids[offsets[row] : offsets[row + 1]]] = True
        line[:] = np.packbits(survives)
    return PackedIds(_packed(counts), _packed(gaps[~np.repeat(is_dense, counts)]), bits.ravel())


def unpacked_ids(packed: PackedIds, rows: int, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The token ids int32 [entries] and offsets int64 [rows + 1]. Raises ValueError if these are not `rows`
    rows of ascending ids below `vocab_size`."""
    counts, gaps = _unpacked(packed.counts), _unpacked(packed.gaps)
    if len(counts) and counts.max() > vocab_size:
        raise ValueError(f"{counts.max()} ids of a vocabulary of {vocab_size}")
    is_dense = _are_dense(counts, vocab_size)
    listed = np.where(is_dense, 0, counts)
    bits = packed.bits.reshape(int(is_dense.sum()), -(-vocab_size // 8))
    if len(counts) != rows or len(gaps) != listed.sum():
        raise ValueError(f"{len(counts)} rows of {listed.sum()} ids, not {rows} of {len(gaps)}")
    offsets = np.concatenate([[0], np.cumsum(counts)])
    steps = np.cumsum(gaps + 1)
    ends = np.cumsum(listed)
    before = np.concatenate([[0], steps])[ends - listed]  # what the rows before have added up to
    sparse = steps - 1 - np.repeat(before, listed)
    if len(sparse) and sparse.max() >= vocab_size:
        raise ValueError(f"token {sparse.max()} of a vocabulary of {vocab_size}")
    token_ids = np.empty(len(sparse) + int(counts[is_dense].sum()), np.int32)
    token_ids[np.repeat(~is_dense, counts)] = sparse
    for line, row in zip(bits, np.flatnonzero(is_dense).tolist(), strict=True):
        ids = np.flatnonzero(np.unpackbits(line)[:vocab_size])
        if len(ids) != counts[row]:
            raise ValueError(f"{len(ids)} bits for {counts[row]} ids")
        token_ids[offsets[row] : offsets[row + 1]] = ids
    return token_ids, offsets


def _are_dense(counts: np.ndarray, vocab_size: int) -> np.ndarray:
    """Which rows are smaller with a bit for each token: an id in a list takes at least a byte."""
    dense: np.ndarray = 8 * counts > vocab_size
    return dense


def _packed(numbers: np.ndarray) -> np.ndarray:
    """Integers from 0 to 2^31 − 1 as bytes, uint8."""
    places = np.arange(0, 7 * _LONGEST, 7)
    digits = numbers.astype(np.int64)[:, None] >> places
    is_needed = digits > 0
    is_needed[:, 0] = True
    is_last = is_needed & ~np.pad(is_needed[:, 1:], ((0, 0), (0, 1)))
    return ((digits & 127) | np.where(is_last, 0, 128)).astype(np.uint8)[is_needed]


def _unpacked(packed: np.ndarray) -> np.ndarray:
    """The integers in bytes, int64. Raises ValueError if these are none."""
    ends = np.flatnonzero(packed < 128)
    begins = np.concatenate([[0], ends[:-1] + 1])[: len(ends)]
    lengths = ends + 1 - begins
    if lengths.sum() != len(packed) or (len(lengths) and lengths.max() > _LONGEST):
        raise ValueError("bytes that are not integers")
    places = np.arange(len(packed)) - np.repeat(begins, lengths)
    digits = (packed & 127).astype(np.int64) << 7 * places
    return np.add.reduceat(digits, begins) if len(begins) else digits
