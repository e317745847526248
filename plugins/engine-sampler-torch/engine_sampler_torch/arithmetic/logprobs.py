"""Logprobs of tokens, with the ranks, for whole batches."""

from __future__ import annotations

import torch
from torch import Tensor

from engine_sampler.arithmetic import LN_2

from .integer_weights import NEGATIVE_INFINITY, distances, log2_mass, weights
from .ranking import columns_of, first_columns


def log_total(values: Tensor) -> Tensor:
    """ln Σ exp(l) of each row of float32 `values` [n, m], float64 [n]: max + (log2_64(S) − 30)·ln 2. NaN for
    a row that contains NaN or +inf, or only −inf."""
    peak = values.amax(1).to(torch.float64)
    level = log2_mass(weights(distances(values)).sum(1))
    return (peak + level * LN_2).masked_fill_(~peak.isfinite(), float("nan"))


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
