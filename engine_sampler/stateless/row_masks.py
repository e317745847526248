"""Masks of single steps: `apply_bitmask`, `fill_bitmasks`, and what rows make of a mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arithmetic import LogitRows
from ..base.arguments import integers_of
from ..base.errors import described, text_of
from ..contract import bitmask_words, checked_bitmask, unpack_bitmask
from ..registry import mask_filler

_MINUS_INFINITY_IN_BFLOAT16 = 0xFF80


def apply_bitmask(logits: Any, bitmask: Any, rows: Sequence[int] | None = None) -> None:
    """Set the logits that masks do not allow to −inf, in place.

    logits   [rows, width], float32, float16 or bfloat16: a writable NumPy array, or a torch tensor on any
             device.
    bitmask  int32 [masks, words], bit t % 32 of word t // 32 is 1 if token t may follow; or bool
             [masks, columns]. Columns beyond it, those of a padded head, become −inf.
    rows     the row of the logits for each mask; default: mask i is that of row i.

    `RowSampler.step`, `Scheduler.step` and grammars of requests need no such call: they read masks beside the
    logits, which saves a pass. Raises TypeError or ValueError for other arrays, before anything changes.
    """
    allowed = _as_array(bitmask)
    is_bits = allowed.dtype == np.int32
    if allowed.ndim != 2 or not (is_bits or allowed.dtype == np.bool_):
        raise ValueError(f"bitmask={described(allowed)} is not allowed: int32 [rows, words] or bool")
    read = LogitRows(logits, 1)
    which = list(range(len(allowed))) if rows is None else integers_of("rows", rows, "a list of rows")
    if len(which) != len(allowed) or any(not 0 <= row < len(read) for row in which):
        raise ValueError(f"rows={described(which)} is not allowed: a row of {len(read)} for each mask")
    columns = min(read.width, allowed.shape[1] * (32 if is_bits else 1))
    flags = np.zeros((len(allowed), read.width), bool)
    for row, mask in zip(flags, allowed, strict=True):
        row[:columns] = unpack_bitmask(mask, columns) if is_bits else mask[:columns]
    if hasattr(logits, "masked_fill"):
        at = logits.new_tensor(which).long()
        removed = logits.new_tensor(~flags).bool()
        logits[at] = logits[at].masked_fill(removed, -np.inf)
        return
    target = read.array
    if (
        not isinstance(logits, np.ndarray)
        or not logits.flags.writeable
        or not np.shares_memory(logits, target)
    ):
        raise TypeError(
            "logits are not allowed: a writable NumPy array whose rows are contiguous, or a tensor"
        )
    lowest: Any = _MINUS_INFINITY_IN_BFLOAT16 if read.bfloat16 else -np.inf
    for row_number, row in zip(which, flags, strict=True):
        target[row_number, ~row] = lowest


def fill_bitmasks(
    matchers: Sequence[Any], bitmask: np.ndarray, rows: Sequence[int] | None = None
) -> dict[int, str]:
    """Fill the masks of many grammars in one call; those of this library take one call of C together.

    matchers  objects with `fill_bitmask`, such as `Matcher`.
    bitmask   int32 [rows, ceil(vocab / 32) or more], C-contiguous; rows that are not named stay as they are.
    rows      the row of each matcher, all different; default: matcher i fills row i.

    Returns why matchers failed, by row: such a row is all 0, and the others are filled. Raises TypeError for
    another array, ValueError for rows that it does not have.
    """
    count, _ = checked_bitmask(bitmask, 0)
    which = list(range(len(matchers))) if rows is None else integers_of("rows", rows, "a list of rows")
    wrong = any(not 0 <= row < count for row in which) or len(set(which)) < len(which)
    if wrong or len(which) != len(matchers):
        raise ValueError(
            f"rows={described(which)} is not allowed: a row of {count} for each of {len(matchers)} matchers"
        )
    return {row: text_of(fault) for row, fault in mask_filler()(matchers, bitmask, which).items()}


def packed(mask: Any, count: int, vocab_size: int) -> np.ndarray:
    """The mask of each of `count` rows as int32 [rows, ceil(vocab / 32)]; `mask` may be that already, or bool
    [rows, vocab or more]. Raises ValueError for any other array."""
    array, words = _as_array(mask), bitmask_words(vocab_size)
    if array.ndim == 2 and len(array) == count:
        if array.dtype == np.int32 and array.shape[1] >= words:
            return np.ascontiguousarray(array[:, :words])
        if array.dtype == np.bool_ and array.shape[1] >= vocab_size:
            bits = np.zeros((count, words * 4), np.uint8)
            some = np.packbits(array[:, :vocab_size], axis=1, bitorder="little")
            bits[:, : some.shape[1]] = some
            return bits.view("<i4").astype(np.int32, copy=False)
    raise ValueError(
        f"mask={described(array)} is not allowed: int32 {[count, words]} or bool {[count, vocab_size]}"
    )


def _as_array(mask: Any) -> np.ndarray:
    return np.asarray(mask.cpu() if hasattr(mask, "cpu") else mask)
