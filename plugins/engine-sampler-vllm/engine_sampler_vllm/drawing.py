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


def tokens_of(drawn: RowResult, logits: torch.Tensor) -> torch.Tensor:
    """int64 [rows] on the device of the logits. A row that gave no token has the likeliest one that is a
    number: vLLM has no way to end a request from here."""
    if drawn.token_ids_on_device is not None:
        return drawn.token_ids_on_device
    tokens = torch.tensor(drawn.token_ids, device=logits.device)
    for row in np.flatnonzero(drawn.token_ids < 0).tolist():
        tokens[row] = torch.nan_to_num(logits[row].float(), nan=-torch.inf).argmax()
    return tokens


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
