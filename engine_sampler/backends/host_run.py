"""`HostRun`: the rows of a step that the host runs in place of a backend."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ..contract import Batch, Group
from ..registry import default_registry
from .numpy import NumpyBackend

Reason = Literal["declined", "unsupported", "lost"]
"""Why the host runs rows: the backend declines them, lacks a part of their chain, or is no longer called."""

Survivors = Mapping[int, tuple[np.ndarray, np.ndarray]]
"""By row: (ids int64 [m], ascending, and logits float32 [m], at least one and none −inf)."""


class HostRun:
    """What the host runs of a step in place of a backend, with the same tokens.

    `run` takes rows from the beginning of their chains, `resume` from a later sampler on. Observers hear of
    all of them once, when `tell` is called: `rows_on_host`, with a sum for each reason. A row that ends with
    an error is none of them: any backend leaves it to the host, which says what is wrong with it.

    backend  the name of the backend.
    rows     how many rows there have been since, by reason.
    """

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.rows: dict[Reason, int] = {}
        self._scheduler = ""

    def run(self, batch: Batch, groups: Sequence[Group], why: Reason | None) -> None:
        """Run the chains of `groups`, which are their plans. `why` is None for rows that are counted
        already."""
        rows = [row for group in groups for row in group.index.tolist()]
        batch.logits.fetch(rows)
        _numpy().run(replace(batch, groups=list(groups), cache={}))
        if why is not None:
            self.count(batch, rows, why)

    def resume(self, batch: Batch, group: Group, step: int, survivors: Survivors, why: Reason) -> None:
        """Run the chain of `group` from its sampler number `step` on.

        It runs for the rows of `batch` in `survivors`, with the tokens that the samplers before have left."""
        _numpy().resume(batch, group, step, survivors)
        self.count(batch, survivors, why)

    def count(self, batch: Batch, rows: Iterable[int], why: Reason) -> None:
        """Count those of `rows` that have no error, once the host has run them."""
        if served := sum(batch.errors[row] is None for row in rows):
            self.rows[why] = self.rows.get(why, 0) + served
            self._scheduler = batch.groups[0].rows.vocabulary.scheduler

    def tell(self) -> None:
        """Tell observers of the rows so far."""
        counts, self.rows = self.rows, {}
        for why, rows in counts.items():
            default_registry().notify("rows_on_host", self.backend, rows, why, scheduler=self._scheduler)


def clear_rows(batch: Batch, rows: np.ndarray) -> None:
    """Take back what a backend has written for `rows` of a batch."""
    batch.token_ids[rows], batch.notes[rows] = -1, np.nan
    for row in rows.tolist():
        batch.errors[row] = None
        batch.survivors.pop(row, None)
    if batch.logprobs is not None:
        batch.logprobs.done[rows] = False
        for table in filter(None, batch.logprobs.out):
            table.clear(rows)


def members_of(group: Group, members: Sequence[int] | np.ndarray) -> Group:
    """The requests `members` of `group`, for the host: it needs no plan of the edits."""
    which = np.asarray(members, np.int64)
    return replace(group, index=group.index[which], rows=group.rows.take(which), edits=None)


@functools.cache
def _numpy() -> NumpyBackend:
    return NumpyBackend()
