"""`RowMove`: whole rows for the ranks that own them, from the shards of all."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from ..shards import VocabularyShards
from .ledger import StepPlan


class RowMove:
    """The rows of one step, on their way from shards of the vocabulary to their owners.

    All that can fail is done here, before anything is sent: the logits are checked, packed by owner, and
    there is room for what comes. Bytes travel, so any dtype does. Raises as `VocabularyShards.tokens_of`.

    dtype   of the logits.
    sent    bytes that this rank gives to each rank.
    """

    def __init__(self, shards: VocabularyShards, rank: int, plan: StepPlan, logits: Tensor) -> None:
        tokens = shards.tokens_of(rank, logits, plan.rows)
        rows_by_owner = [plan.rows_of(owner) for owner in range(len(shards.sizes))]
        order = np.concatenate(rows_by_owner)
        if (np.diff(order) != 1).any():
            tokens = tokens.index_select(0, torch.from_numpy(order).to(tokens.device))
        self.dtype = tokens.dtype
        self._shards = shards
        self._rows = len(rows_by_owner[rank])
        size = tokens.element_size()
        self._packed = tokens.contiguous().view(-1).view(torch.uint8)
        self.sent = [len(rows) * shards.sizes[rank] * size for rows in rows_by_owner]
        self._expected = [self._rows * columns * size for columns in shards.sizes]
        self._received = self._packed.new_empty(sum(self._expected))

    def exchange(self, group: dist.ProcessGroup | None) -> None:
        """Send and receive, in one `all_to_all_single`."""
        dist.all_to_all_single(self._received, self._packed, self._expected, self.sent, group=group)

    def whole(self) -> Tensor:
        """[rows, vocab], the rows that this rank owns, in row order."""
        out = torch.empty(
            (self._rows, self._shards.vocab_size), dtype=self.dtype, device=self._received.device
        )
        parts = torch.split(self._received.view(self.dtype), [self._rows * n for n in self._shards.sizes])
        for begin, size, part in zip(self._shards.offsets, self._shards.sizes, parts, strict=True):
            out[:, begin : begin + size] = part.view(self._rows, size)
        return out
