"""Which rows of the logits the requests of a step draw from: one each, or several, round by round."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..requests.draws import RowOutputs
from ..requests.slots import Slots
from .beam_groups import BeamGroup
from .input_batch import InputBatch


class Round(NamedTuple):
    """Requests that draw at the same time, from one row each.

    inputs     the requests.
    rows       int64 [n], their rows of the logits.
    members    their indices among all requests of the step.
    is_whole   whether these are all requests and all rows, in the same order: what has been prepared for them
               holds from step to step.
    draws_all  whether no other request of the step draws.
    is_first   whether this is the first round of the step.
    counts     int64 [n], how many rows each request has in the step, `rows` being the first; None if it has
               no other.
    """

    inputs: InputBatch
    rows: np.ndarray
    members: Sequence[int]
    is_whole: bool = False
    draws_all: bool = False
    is_first: bool = True
    counts: np.ndarray | None = None


class RowPlan:
    """One row for each request.

    inputs      the requests of the step.
    first_rows  int64 [named], the first row of each id that the step names.
    row_count   how many rows the logits must have.
    is_whole    whether all rows belong to one round, and none is skipped.
    groups      the beam searches among the requests.
    drafts      the drafts of each id that the step names; None in a step without drafts.
    """

    groups: Sequence[BeamGroup] = ()
    drafts: list[list[int]] | None = None

    def __init__(self, inputs: InputBatch) -> None:
        self.inputs = inputs
        self.row_count = len(inputs.named)
        self.first_rows = np.arange(self.row_count)
        self.is_whole = not inputs.skipped
        self._only = (Round(inputs, inputs.places, inputs.all_indices, self.is_whole, True),)

    def rounds(self, outputs: RowOutputs) -> Iterable[Round]:
        """The rounds of the step, one after the other; those so far have drawn `outputs`."""
        return self._only


class DraftPlan(RowPlan):
    """One more row for every draft: round by round, as long as the drafts are right."""

    def __init__(self, inputs: InputBatch, slots: Slots, drafts: list[list[int]]) -> None:
        super().__init__(inputs)
        self.is_whole = False
        self.drafts = self._drafts = drafts
        self._slots = slots
        self._ends = np.cumsum([0, *(1 + len(draft) for draft in drafts)], dtype=np.int64)
        self.row_count, self.first_rows = int(self._ends[-1]), self._ends[:-1]

    def rounds(self, outputs: RowOutputs) -> Iterable[Round]:
        inputs, places = self.inputs, self.inputs.places
        rows, row_counts = self.first_rows[places], np.diff(self._ends)[places]
        drafts = [self._drafts[i] for i in places.tolist()]
        yield Round(inputs, rows, inputs.all_indices, draws_all=True, counts=row_counts)
        drawing: Sequence[int] = inputs.all_indices
        for depth in itertools.count():
            drawing = [
                i
                for i in drawing
                if depth < len(drafts[i])
                and inputs.requests[i].live
                and outputs.token_ids[rows[i] + depth] == drafts[i][depth]
            ]
            if not drawing:
                return
            part = inputs.part(self._slots, drawing)
            yield Round(part, rows[drawing] + depth + 1, drawing, is_first=False)


class BeamPlan(RowPlan):
    """One row for each request; those of beam searches draw nothing, the searches do."""

    def __init__(self, inputs: InputBatch, slots: Slots, groups: Sequence[BeamGroup]) -> None:
        super().__init__(inputs)
        self.is_whole = False
        self.groups = groups
        self._slots = slots

    def rounds(self, outputs: RowOutputs) -> Iterable[Round]:
        inputs = self.inputs
        searching = {request_id for group in self.groups for request_id in group.request_ids}
        drawing = [i for i, request_id in enumerate(inputs.ids) if request_id not in searching]
        if drawing:
            yield Round(inputs.part(self._slots, drawing), inputs.places[drawing], drawing)
