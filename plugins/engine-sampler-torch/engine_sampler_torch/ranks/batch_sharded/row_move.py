"""`RowMove`: whole rows for the ranks that own them, from the shards of all."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from ..shards import VocabularyShards
from .ledger import StepPlan


class RowRoom:
    """Memory of one scheduler's steps, which is used again in every step and grows with them."""

    def __init__(self) -> None:
        self._bytes: dict[str, Tensor] = {}

    def of(self, what: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Room for `what`, of the dtype and on the device of another tensor; what was in it is lost."""
        size = math.prod(shape) * like.element_size()
        room = self._bytes.get(what)
        if room is None or room.numel() < size or room.device != like.device:
            room = self._bytes[what] = torch.empty(size, dtype=torch.uint8, device=like.device)
        return room[:size].view(like.dtype).view(shape)


class RowMove:
    """The rows of one step, on their way from shards of the vocabulary to their owners.

    All that can fail is done here, before anything is sent: the logits are checked, packed by owner, and
    there is room for what comes. Logits without padding whose rows are in the order of their owners are sent
    from where they are. Bytes travel, so any dtype does. Raises as `VocabularyShards.tokens_of`.

    dtype   of the logits.
    sent    bytes that this rank gives to each rank.
    """

    def __init__(
        self, shards: VocabularyShards, rank: int, plan: StepPlan, logits: Tensor, room: RowRoom
    ) -> None:
        tokens = shards.tokens_of(rank, logits, plan.rows)
        counts = [len(rows) for rows in plan.rows_by_owner]
        self.dtype = tokens.dtype
        self._shards = shards
        self._rows = counts[rank]
        size = tokens.element_size()
        self._packed = _packed(tokens, plan.row_order, room).view(-1).view(torch.uint8)
        self.sent = [count * shards.sizes[rank] * size for count in counts]
        self._expected = [self._rows * columns * size for columns in shards.sizes]
        shape = self._rows, shards.vocab_size
        self._received = room.of("received", shape, tokens).view(-1).view(torch.uint8)
        self._whole = room.of("whole", shape, tokens)

    def exchange(self, group: dist.ProcessGroup | None) -> None:
        """Send and receive, in one `all_to_all_single`."""
        dist.all_to_all_single(self._received, self._packed, self._expected, self.sent, group=group)

    def whole(self) -> Tensor:
        """[rows, vocab], the rows that this rank owns, in row order; valid until the next step."""
        parts = torch.split(self._received.view(self.dtype), [self._rows * n for n in self._shards.sizes])
        for begin, size, part in zip(self._shards.offsets, self._shards.sizes, parts, strict=True):
            self._whole[:, begin : begin + size] = part.view(self._rows, size)
        return self._whole


def _packed(tokens: Tensor, order: np.ndarray | None, room: RowRoom) -> Tensor:
    """The rows in the order of their owners, one after the other; themselves where they are so already."""
    if order is None and tokens.is_contiguous():
        return tokens
    packed = room.of("packed", tuple(tokens.shape), tokens)
    if order is None:
        return packed.copy_(tokens)
    return torch.index_select(tokens, 0, uploaded(order, tokens.device), out=packed)


def uploaded(numbers: np.ndarray, device: torch.device) -> Tensor:
    """The numbers on a device, for what is queued there; the host does not wait for it."""
    there = torch.from_numpy(numbers)
    if device.type == "cuda":
        there = there.pin_memory()  # a copy from elsewhere waits for all that is queued
    return there.to(device, non_blocking=True)
