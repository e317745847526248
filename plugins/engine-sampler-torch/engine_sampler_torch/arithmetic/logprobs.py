"""Columns in order, (logit descending, column ascending), by sorting unique integer keys; and logprobs of
tokens with their ranks, for whole batches."""

from __future__ import annotations

import torch
from torch import Tensor

from engine_sampler.arithmetic import LN_2

from .integer_weights import NEGATIVE_INFINITY, distances, log2_mass, weights

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


def log_total(values: Tensor) -> Tensor:
    """ln Σ exp(l) of each row of float32 `values` [n, m], float64 [n]: max + (log2_64(S) − 30)·ln 2. NaN for
    a row that contains NaN or +inf, or only −inf."""
    return log_mass(values.amax(1), weights(distances(values)).sum(1))


def log_mass(peak: Tensor, total: Tensor) -> Tensor:
    """`log_total` of rows whose greatest logits `peak`, float32 [n], and sums of weights, int64 [n], are
    known."""
    level = log2_mass(total) * LN_2
    return (peak.to(torch.float64) + level).masked_fill_(~peak.isfinite(), float("nan"))


def row_logprobs(
    values: Tensor, token_ids: Tensor, top_n: int, ids: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The logprobs of each row of float32 `values` [n, m] for its token of `token_ids` [n] and for its
    `top_n` likeliest tokens: float32(float64(l) − log_total). top_n = −1 means all m.

    ids: the token of each column, int64 [n, m], ascending; None if column j is token j. Returns token ids
    int64 [n, 1 + k] and logprobs float32 [n, 1 + k], the given token first, k = min(top_n, m), and the rank
    of the given token, int64 [n]. Removed tokens come last, with logprob −inf. A given token that is removed
    or has no column has logprob −inf and the rank after all others.
    """
    columns, present = columns_of(token_ids[:, None], ids, values.shape[1])
    chosen = values.gather(1, columns).masked_fill_(~present, NEGATIVE_INFINITY)
    before = torch.arange(values.shape[1], device=values.device) < columns
    equal = (values == chosen) & before & (chosen > NEGATIVE_INFINITY)
    ranks = ((values > chosen) | equal).sum(1) + 1
    top = first_columns(values, values.shape[1] if top_n < 0 else min(top_n, values.shape[1]))
    listed = torch.cat([chosen, values.gather(1, top)], 1).to(torch.float64)
    logprobs = (listed - log_total(values)[:, None]).to(torch.float32)
    return torch.cat([token_ids[:, None], top if ids is None else ids.gather(1, top)], 1), logprobs, ranks
