"""Recognises calls that give the ids of the call before and the tokens that were drawn in it."""

from __future__ import annotations

import numpy as np

from .histories import Padding

Ids = tuple[np.ndarray | None, np.ndarray | None]
"""`all_input_ids` and `output_ids` of a call."""


class GrowingIds:
    """The ids of a batch's last call, if they are padded at the end only."""

    def __init__(self, ids: Ids, padding: Padding) -> None:
        self._padding = padding
        self._last = [None if array is None else (array, _lengths(array, padding)) for array in ids]

    def gives(self) -> tuple[bool, ...]:
        """Which of the two the last call gave."""
        return tuple(last is not None for last in self._last)

    def grow(self, ids: Ids, tokens: np.ndarray) -> bool:
        """Whether `ids` are those of the last call, each row followed by its one of `tokens` [rows].

        If so they are the last call's from now on.
        """
        grown = [
            None if array is None or last is None else _grown(*last, array, tokens, self._padding)
            for array, last in zip(ids, self._last, strict=True)
        ]
        if any((array is None) != (new is None) for array, new in zip(ids, grown, strict=True)):
            return False
        self._last = [
            None if array is None or new is None else (array, new)
            for array, new in zip(ids, grown, strict=True)
        ]
        return True


def _lengths(ids: np.ndarray, padding: Padding) -> np.ndarray | None:
    """int64 [rows], how many tokens each row has before its padding; None if the padding is elsewhere."""
    valid = (ids >= 0) & (ids < padding.vocab_size)
    if padding.token_id is not None and (ids == padding.token_id).any():
        return None
    lengths: np.ndarray = valid.sum(axis=1)
    return lengths if (valid == (np.arange(ids.shape[1]) < lengths[:, None])).all() else None


def _grown(
    old: np.ndarray, lengths: np.ndarray | None, new: np.ndarray, tokens: np.ndarray, padding: Padding
) -> np.ndarray | None:
    """The new lengths of the rows, if `new` is `old` with one of `tokens` after each row, else None."""
    width, new_width = old.shape[1], new.shape[1]
    if lengths is None or new_width not in (width, width + 1) or lengths.max() >= new_width:
        return None
    if (tokens == padding.token_id).any():
        return None
    rows = np.arange(len(old))
    if (new[rows, lengths] != tokens).any():
        return None
    same = new[:, :width] == old
    inside = lengths < width
    same[rows[inside], lengths[inside]] = True
    if not same.all():
        return None
    if new_width > width:
        filling = new[inside, width]
        if not ((filling == -1) | (filling == padding.vocab_size)).all():
            return None
    return lengths + 1
