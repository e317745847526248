"""What the samplers of both model runners do with the results of `RowSampler`."""

from __future__ import annotations

import logging

import numpy as np
import torch

from engine_sampler import LogprobsTable, RequestLimits, RowResult, RowSampler

logger = logging.getLogger("engine_sampler")


class KeptRows:
    """The `RowSampler` of an engine, made for the width of the logits that it meets."""

    def __init__(self) -> None:
        self._rows: RowSampler | None = None

    def of(self, width: int, seed: int | None) -> RowSampler:
        """That for logits of this width; the seed is that of the rows without one."""
        if self._rows is None or self._rows.vocab_size != width:
            self._rows = RowSampler(width, seed=seed, limits=RequestLimits.none())
        return self._rows


def log_faults(drawn: RowResult) -> None:
    """Log why rows gave no token."""
    for row, error in enumerate(drawn.errors):
        if error is not None:
            logger.error("row %d: %s", row, error)


def parts_of(table: LogprobsTable) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A table as vLLM has it: ids int32, −inf where there is no entry."""
    ids = np.maximum(table.token_ids, 0).astype(np.int32)
    values = np.where(table.token_ids < 0, np.float32(-np.inf), table.logprobs)
    return torch.from_numpy(ids), torch.from_numpy(values), torch.from_numpy(table.ranks)


def by_id(table: LogprobsTable) -> torch.Tensor:
    """float32 [rows, vocab] from a table of all tokens."""
    ids, values, _ = parts_of(table)
    out = torch.full((len(ids), ids.shape[1] - 1), -torch.inf)
    return out.scatter_(1, ids[:, 1:].long(), values[:, 1:])
