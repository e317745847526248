"""Logprobs of given tokens, without a chain."""

from __future__ import annotations

import numpy as np
import torch

from engine_sampler.arithmetic import LogitRows, Logprobs, RowLogprobs

from ..arithmetic import row_logprobs
from .pieces import BYTES_PER_LOGIT, WORKING_BYTES
from .reading import read, tensor_of


def logprobs(logits: LogitRows, token_ids: np.ndarray, top_n: int) -> Logprobs:
    """As `Backend.logprobs` defines them: a few rows at a time, with a synchronisation for each part."""
    tensor, size = tensor_of(logits), logits.vocab_size
    n, k = len(logits), size if top_n < 0 else min(top_n, size)
    out = Logprobs.empty(n, k)
    most = max(1, WORKING_BYTES // (BYTES_PER_LOGIT * size))
    for start in range(0, n, most):
        rows = slice(start, min(start + most, n))
        block = read(tensor, rows, size)
        chosen = torch.from_numpy(token_ids[rows].copy()).to(tensor.device)
        ids, values, ranks, faults = (
            part.cpu().numpy() for part in (*row_logprobs(block.values, chosen, top_n), block.faults)
        )
        for i in range(len(ids)):
            if not faults[i]:
                out.fill(start + i, RowLogprobs(ids[i], values[i], int(ranks[i])))
    out.entry_token_ids[out.starts[:-1]] = token_ids
    return out
