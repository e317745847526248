"""Order of columns: (logit descending, column ascending), by sorting unique integer keys."""

from __future__ import annotations

import torch
from torch import Tensor

_COLUMN = 0xFFFFFFFF
_MAGNITUDE = 0x7FFFFFFF


def sort_keys(values: Tensor) -> Tensor:
    """int64 keys [n, m] that ascend in (logit desc, column asc) order; the low 32 bits are the column."""
    bits = (values + 0.0).view(torch.int32)  # −0 becomes +0
    descending_bits = (bits ^ (bits >> 31 & _MAGNITUDE)).bitwise_not_()
    keys = descending_bits.to(torch.int64).bitwise_left_shift_(32)
    return keys.bitwise_or_(torch.arange(values.shape[1], device=values.device))


def descending(values: Tensor) -> Tensor:
    """All columns of each row in order, int64 [n, m]."""
    return sort_keys(values).sort(1).values.bitwise_and_(_COLUMN)


def first_columns(values: Tensor, k: int) -> Tensor:
    """The first `k` ≤ m columns of each row in order, int64 [n, k]."""
    if 2 * k > values.shape[1]:
        return descending(values)[:, :k]
    return sort_keys(values).topk(k, 1, largest=False).values.bitwise_and_(_COLUMN)


def columns_of(token_ids: Tensor, ids: Tensor | None, width: int) -> tuple[Tensor, Tensor]:
    """(columns, present), int64 and bool [n, e]: where `token_ids` [n, e] are among ascending `ids`
    [n, width], or None if column j is token j; any column if absent."""
    if ids is None:
        return token_ids.clamp(max=width - 1), token_ids < width
    columns = torch.searchsorted(ids, token_ids).clamp_(max=width - 1)
    return columns, ids.gather(1, columns) == token_ids
