"""`DeviceTokens`: the tokens of a step, from the devices of their owners to those of all ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ..exchange import all_gather
from .ledger import StepPlan
from .row_move import uploaded


class DeviceTokens:
    """One collective on the group that moves the logits, in which every rank gives as many int64 as the rank
    with the most rows needs. It is queued behind the draws, and the host does not wait for it.

    What a rank cannot give, since it has failed or its tokens are not there, is −1; the messages of `finish`
    say why.
    """

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        self._group = group
        self._ranks = dist.get_world_size(group)
        self._room: _Room | None = None

    def prepare(self, plan: StepPlan, device: torch.device) -> _Room:
        """Make the room that a step needs, while other ranks can still be told that there is none."""
        room = self._room
        if room is None or room.plan is not plan or room.sent.device != device:
            sent = torch.full((plan.most_rows,), -1, dtype=torch.int64, device=device)
            received = sent.new_empty(self._ranks * plan.most_rows)
            room = self._room = _Room(plan, sent, received, uploaded(plan.places, device))
        return room

    def gather(self, plan: StepPlan, rank: int, own: Any, device: torch.device) -> Tensor:
        """int64 [rows] in row order, from `own`, the tokens of the rows that `rank` owns; None for −1."""
        if not plan.rows:
            return torch.empty(0, dtype=torch.int64, device=device)
        room = self.prepare(plan, device)
        if is_given(plan, rank, own, device):
            room.sent[: len(own)] = own
        else:
            room.sent.fill_(-1)
        all_gather(room.received, room.sent, self._group)
        return room.received.index_select(0, room.places)


class _Room(NamedTuple):
    """The memory of steps with one plan.

    sent      int64 [most rows], −1 behind the rows that the rank owns; `received` [ranks · most rows].
    places    int64 [rows], where the rows are in it.
    """

    plan: StepPlan
    sent: Tensor
    received: Tensor
    places: Tensor


def is_given(plan: StepPlan, rank: int, own: Any, device: torch.device) -> bool:
    """Whether `own` are tokens of all rows that `rank` owns, on the device."""
    return (
        isinstance(own, Tensor)
        and own.dtype == torch.int64
        and own.device == device
        and own.shape == plan.rows_of(rank).shape
    )
