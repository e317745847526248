"""Rows after their chains, as the backends of the host give them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..contract import Batch


def processed_rows(batch: Batch, run: Callable[[Batch], None]) -> np.ndarray:
    """float32 [rows, vocab], new: what `run` writes to `Batch.processed`; NaN for rows of no group, and for
    rows that fail."""
    out = batch.processed = np.empty((len(batch.logits), batch.logits.vocab_size), np.float32)
    run(batch)
    if batch.errors.count(None) == len(out) and sum(len(group.index) for group in batch.groups) == len(out):
        return out
    is_written = np.zeros(len(out), bool)
    for group in batch.groups:
        is_written[group.index] = True
    is_written[[i for i, error in enumerate(batch.errors) if error is not None]] = False
    out[~is_written] = np.nan
    return out
