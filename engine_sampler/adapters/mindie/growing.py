"""Recognises calls that give the ids of the call before and the tokens that were drawn in it."""

from __future__ import annotations

import numpy as np

from .histories import Padding

Ids = tuple[np.ndarray | None, np.ndarray | None]
"""`all_input_ids` and `output_ids` of a call."""


class GrowingIds:
    """The ids of a batch's last call, if the tokens of each row are padded at its ends only."""

    def __init__(self, ids: Ids, padding: Padding) -> None:
        self._padding = padding
        self._last = ids
        self._ends: list[np.ndarray | None] | None = None
        """Where the tokens of each row end; None until a call gives ids again."""

    def gives(self) -> tuple[bool, ...]:
        """Which of the two the last call gave."""
        return tuple(last is not None for last in self._last)

    def grow(self, ids: Ids, tokens: np.ndarray) -> bool:
        """Whether `ids` are those of the last call, each row followed by its one of `tokens` [rows].

        If so they are the last call's from now on.
        """
        if any((array is None) != (last is None) for array, last in zip(ids, self._last, strict=True)):
            return False
        if self._ends is None:
            self._ends = [None if last is None else _ends(last, self._padding) for last in self._last]
        grown: list[np.ndarray | None] = []
        for array, last, ends in zip(ids, self._last, self._ends, strict=True):
            after = None
            if array is not None and last is not None:
                after = None if ends is None else _grown(last, ends, array, tokens, self._padding)
                if after is None:
                    return False
            grown.append(after)
        self._last, self._ends = ids, grown
        return True


def _ends(ids: np.ndarray, padding: Padding) -> np.ndarray | None:
    """int64 [rows], the column after the last token of each row; None if a row has padding inside.

    A row without tokens ends at 0.
    """
    if padding.token_id is None and padding.is_absent_from(ids):
        return np.full(len(ids), ids.shape[1])
    spans = [padding.span(row) for row in ids]
    return None if None in spans else np.array([span[1] for span in spans if span is not None])


def _grown(
    old: np.ndarray, ends: np.ndarray, new: np.ndarray, tokens: np.ndarray, padding: Padding
) -> np.ndarray | None:
    """The new ends of the rows, if `new` is `old` with one of `tokens` after each row, else None."""
    width, new_width = old.shape[1], new.shape[1]
    if new_width not in (width, width + 1) or ends.max() >= new_width:
        return None
    if (tokens == padding.token_id).any():
        return None
    rows = np.arange(len(old))
    if (new[rows, ends] != tokens).any():
        return None
    same = new[:, :width] == old
    inside = ends < width
    same[rows[inside], ends[inside]] = True
    if not same.all():
        return None
    if new_width > width:
        filling = new[inside, width]
        if not np.isin(
            filling, (-1, padding.vocab_size, -1 if padding.token_id is None else padding.token_id)
        ).all():
            return None
    return ends + 1
