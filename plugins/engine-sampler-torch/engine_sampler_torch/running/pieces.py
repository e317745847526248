"""`Piece`: some rows of one group, what is uploaded for them, and what they must give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler import LOGPROBS_KINDS, Batch, Group, Rows

from ..steps import DeviceSelector, DeviceStep, Given
from .masks import PieceMasks
from .plan import Plan
from .transfer import Upload

WORKING_BYTES = 512 << 20
"""The rows that are worked on together need at most so much memory, or as much as the logits."""
BYTES_PER_LOGIT = 40
"""What a logit needs while its row is worked on: float32 values, distances, int64 weights and sort keys."""
MOST_LISTED = 1024
"""Rows that list more likeliest tokens than this get their logprobs on the host."""


def pieces_of(
    group: Group, batch: Batch, logits: Tensor, upload: Upload, *, choosing: bool = True
) -> list[Piece]:
    """The rows of a group in pieces of bounded size; `choosing`: whether their selector runs."""
    size = group.rows.vocabulary.size
    room = max(WORKING_BYTES, logits.numel() * logits.element_size())
    most = max(1, room // (BYTES_PER_LOGIT * size))
    parts = _parts(len(group.index), most)
    return [Piece(group, some, batch, logits.device, upload, choosing) for some in parts]


def _parts(n: int, most: int) -> Iterator[slice]:
    for start in range(0, n, most):
        yield slice(start, min(start + most, n))


class Inputs:
    """The inputs of one step or selector: numbers of uploaded arrays, and what `fixed` gave."""

    def __init__(self, part: DeviceStep | DeviceSelector, rows: Rows, upload: Upload) -> None:
        self.fixed = part.fixed(rows)
        self._upload = upload
        self._numbers = {name: upload.add(array) for name, array in part.inputs(rows).items()}

    @property
    def given(self) -> Given:
        """The arrays on the device."""
        return {name: self._upload[number] for name, number in self._numbers.items()}


class Piece:
    """Rows of one group that run together.

    index       int64 [n], their rows in the logits.
    kinds       uint8 [n], the logprobs that the device writes for each, as in `LogprobsRequest`.
    top_n       int64 [n], how many likeliest tokens each lists.
    keeps       bool [n], which of them need their survivors on the host.
    """

    def __init__(
        self, group: Group, members: slice, batch: Batch, device: torch.device, upload: Upload, choosing: bool
    ) -> None:
        self.group = group
        self.plan: Plan = group.plan
        self.index = group.index[members]
        is_whole = len(self.index) == len(group.index)
        self.rows = group.rows if is_whole else group.rows.take(members)
        self.members = members
        self.masks = None
        under = self.rows
        if group.masked and batch.bitmask is not None:
            self.masks = PieceMasks(batch, self.index, device, upload)
            under = self.rows.under(batch.bitmask[self.index])
        self.steps = _inputs(self.plan.chain.samplers, self.plan.steps, under, upload)
        self.edits_plan: Plan | None = group.edits if self._reports(batch) else None
        self.edits = (
            []
            if self.edits_plan is None
            else _inputs(self.edits_plan.chain.samplers, self.edits_plan.steps, under, upload)
        )
        selector = self.plan.selector if choosing else None
        self.selector = (
            None if selector is None else Inputs(selector, under.bind(self.plan.chain.selector), upload)
        )
        self._set_reports(batch)
        self._where = upload.add(self.index)
        self._upload = upload

    def __len__(self) -> int:
        return len(self.index)

    @property
    def where(self) -> Tensor:
        """`index` on the device."""
        return self._upload[self._where]

    @property
    def rows_of_logits(self) -> Tensor | slice:
        """What selects the rows from the logits: a slice, if they follow one another."""
        first = int(self.index[0])
        if (self.index == np.arange(first, first + len(self))).all():
            return slice(first, first + len(self))
        return self.where

    def wants(self, kind: str) -> bool:
        """Whether the device writes logprobs of this kind for any row."""
        return bool((self.kinds & (1 << LOGPROBS_KINDS.index(kind))).any())

    @property
    def listed(self) -> int:
        """The greatest number of likeliest tokens that a row lists on the device."""
        return int(self.top_n[self.kinds != 0].max(initial=0))

    def on_host(self, some: list[int] | None = None) -> Group:
        """The same rows, or some of them, as a group for the NumPy backend."""
        group, index, rows = self.group, self.index, self.rows
        if some is not None:
            index, rows = index[some], rows.take(np.array(some))
        return Group(self.plan.chain, index, rows, group.masked, group.want_processed)

    def _reports(self, batch: Batch) -> bool:
        """Whether the device writes logprobs: it chooses, and can compute all that is needed."""
        if batch.logprobs is None or self.plan.selector is None:
            return False
        edits: Plan | None = self.group.edits
        return edits is None or edits.has_all_steps

    def _set_reports(self, batch: Batch) -> None:
        n, request = len(self), batch.logprobs
        self.kinds, self.top_n = np.zeros(n, np.uint8), np.zeros(n, np.int64)
        if request is not None and self._reports(batch):
            top_n = request.top_n[self.index]
            listed = (top_n >= 0) & (top_n <= MOST_LISTED)
            self.kinds = np.where(listed, request.kinds[self.index], 0).astype(np.uint8)
            self.top_n = np.where(listed, top_n, 0)
        is_left = self.kinds == 0
        needs_host = self.plan.selector is None
        self.keeps = is_left if self.group.want_processed else np.full(n, needs_host)


def _inputs(samplers: Sequence[Any], steps: Sequence[DeviceStep], rows: Rows, upload: Upload) -> list[Inputs]:
    return [Inputs(step, rows.bind(sampler), upload) for sampler, step in zip(samplers, steps, strict=False)]
