"""`DeviceTokens`: the tokens of a step, from the devices of their owners to those of all ranks."""

from __future__ import annotations

from typing import Any

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
        self._places: tuple[StepPlan, Tensor] | None = None
        """The plan of the last step, and where its rows are among what is gathered."""

    def gather(self, plan: StepPlan, rank: int, own: Any, device: torch.device) -> Tensor:
        """int64 [rows] in row order, from `own`, the tokens of the rows that `rank` owns; None for −1."""
        if not plan.rows:
            return torch.empty(0, dtype=torch.int64, device=device)
        given = own if is_given(plan, rank, own, device) else None
        if given is None or len(given) < plan.most_rows:
            sent = torch.full((plan.most_rows,), -1, dtype=torch.int64, device=device)
            if given is not None:
                sent[: len(given)] = given
        else:
            sent = given.contiguous()
        received = sent.new_empty(dist.get_world_size(self._group) * len(sent))
        all_gather(received, sent, self._group)
        return received.index_select(0, self._places_of(plan, device))

    def _places_of(self, plan: StepPlan, device: torch.device) -> Tensor:
        kept = self._places
        if kept is None or kept[0] is not plan or kept[1].device != device:
            kept = self._places = plan, uploaded(plan.places, device)
        return kept[1]


def is_given(plan: StepPlan, rank: int, own: Any, device: torch.device) -> bool:
    """Whether `own` are tokens of all rows that `rank` owns, on the device."""
    return (
        isinstance(own, Tensor)
        and own.dtype == torch.int64
        and own.device == device
        and own.shape == plan.rows_of(rank).shape
    )
