"""Drafts: where they come from, and what has become of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..stateless import RowResult
from .rows import tokens_beside
from .tensors import to_numpy


def tokens_of_drafts(
    drawn: RowResult, logits: Any, drafts: Sequence[Sequence[int]], width: int
) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of each key in a step with drafts, int64 [keys, width], −1 behind the last; and the rows of
    the logits that they come from, int64 [keys, width], 0 behind the rows of the key.

    drafts  those of each key, as for `BridgeSampler.draw`: −1 stands for none, and what is drawn in its place
            is the last token.
    width   of the result: more than the longest of the drafts.
    """
    columns = np.arange(width)
    is_row = columns <= np.array([len(draft) for draft in drafts])[:, None]
    rows = np.where(is_row, drawn.first_rows[:, None] + columns, 0)
    tokens = np.where(is_row, to_numpy(tokens_beside(drawn, logits))[rows], -1)
    for row, draft in zip(tokens, drafts, strict=True):
        if -1 in draft:
            row[list(draft).index(-1) + 1 :] = -1
    return tokens, rows


def ngram_draft(text: Sequence[int] | np.ndarray, count: int, shortest: int, longest: int) -> list[int]:
    """What followed the last tokens of a text where they stood before, up to `count` tokens.

    The longest match counts, of `shortest` to `longest` tokens, and the first one in the text of several. []
    where nothing matches. The work grows with the text, not with its square.
    """
    tokens = np.asarray(text)
    ends, begin = np.arange(len(tokens) - 1), len(tokens)  # the last token of each candidate
    for length in range(1, min(longest, len(tokens) - 1) + 1):
        ends = ends[ends >= length - 1]
        ends = ends[tokens[ends - length + 1] == tokens[-length]]
        if not len(ends):
            break
        if length >= shortest:
            begin = int(ends[0]) + 1
    draft: list[int] = tokens[begin : begin + max(count, 0)].tolist()
    return draft
