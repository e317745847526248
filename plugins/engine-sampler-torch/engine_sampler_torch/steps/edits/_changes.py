"""Changing the logits of a few tokens of each row."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...arithmetic import NEGATIVE_INFINITY
from ..base import Block


def edit(block: Block, token_ids: Tensor, formula: Callable[[Tensor], Tensor]) -> None:
    """Give the tokens `token_ids` [n, e], distinct within a row, the logits that `formula` makes of theirs,
    float32 [n, e]; removed tokens stay removed."""
    if token_ids.shape[1]:
        columns, present = block.columns_of(token_ids)
        logits = block.values.gather(1, columns)
        block.store(columns, present & (logits > NEGATIVE_INFINITY), formula(logits))


def remove(block: Block, token_ids: Tensor, also: Tensor | None = None) -> None:
    """Remove the tokens `token_ids` [n, e], in the rows `also` (bool [n]) only."""
    if token_ids.shape[1]:
        columns, present = _entries(block, token_ids, also)
        block.store(columns, present, _removed(columns))


def remove_unless_empty(block: Block, token_ids: Tensor, also: Tensor | None = None) -> None:
    """`remove`, but leave the rows unchanged in which no token would remain."""
    if block.is_partial:
        remove(block, token_ids, also)  # the host does rows again that are empty then
        return
    if not token_ids.shape[1]:
        return
    columns, present = _entries(block, token_ids, also)
    before = block.values.gather(1, columns)
    block.store(columns, present, _removed(columns))
    empty = block.values.amax(1, keepdim=True) == NEGATIVE_INFINITY
    block.store(columns, present & empty, before)


def _entries(block: Block, token_ids: Tensor, also: Tensor | None) -> tuple[Tensor, Tensor]:
    columns, present = block.columns_of(token_ids)
    return columns, present if also is None else present & also[:, None]


def _removed(columns: Tensor) -> Tensor:
    return torch.full_like(columns, NEGATIVE_INFINITY, dtype=torch.float32)
