"""Which rows of the logits the requests of a step draw from: one each, or several, round by round."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arithmetic import LogitRows
from ..contract import Batch
from ..requests.drafted import Draft
from ..requests.draws import RowOutputs
from ..requests.slots import Slots
from .beam_groups import BeamGroup
from .grouping import Grouping
from .input_batch import InputBatch
from .masks import GrammarMasks

if TYPE_CHECKING:
    from .step import Step


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
    drafts     the guesses that these other rows follow, request by request.
    """

    inputs: InputBatch
    rows: np.ndarray
    members: Sequence[int]
    is_whole: bool = False
    draws_all: bool = False
    is_first: bool = True
    counts: np.ndarray | None = None
    drafts: Sequence[Draft] = ()

    def only(self, slots: Slots, indices: Sequence[int]) -> Round:
        """A later round for some of its requests."""
        members = [self.members[i] for i in indices]
        return Round(self.inputs.part(slots, indices), self.rows[indices], members, is_first=False)


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
    drafts: Sequence[Draft] | None = None

    def __init__(self, inputs: InputBatch) -> None:
        self.inputs = inputs
        self.row_count = len(inputs.named)
        self.first_rows = np.arange(self.row_count)
        self.is_whole = not inputs.skipped
        self._only = (Round(inputs, inputs.places, inputs.all_indices, self.is_whole, True),)

    def rounds(self, step: Step) -> Iterable[Round]:
        """The rounds of a step, one after the other; it has run those so far."""
        return self._only


class DraftPlan(RowPlan):
    """One more row for every guess: round by round, as long as what is drawn has been guessed."""

    def __init__(self, inputs: InputBatch, slots: Slots, drafts: Sequence[Draft]) -> None:
        super().__init__(inputs)
        self.is_whole = False
        self.drafts: Sequence[Draft] = drafts
        self._slots = slots
        ends = list(itertools.accumulate([1 + len(draft) for draft in drafts], initial=0))
        self.row_count, self.first_rows = ends[-1], np.array(ends[:-1], np.int64)

    def rounds(self, step: Step) -> Iterable[Round]:
        inputs, places = self.inputs, self.inputs.places
        drafts, rows = [self.drafts[i] for i in places.tolist()], self.first_rows[places]
        self._guesses = [*zip(drafts, rows.tolist(), strict=True)]
        counts = np.array([1 + len(draft) for draft in drafts], np.int64)
        drawing = Round(inputs, rows, inputs.all_indices, draws_all=True, counts=counts, drafts=drafts)
        yield drawing
        while after := step.go_on(drawing, self):
            members, rows = [*after], np.array([*after.values()], np.int64)
            drawing = Round(inputs.part(self._slots, members), rows, members, is_first=False)
            yield drawing

    def after(self, members: Sequence[int], rows: Sequence[int], token_ids: Sequence[int]) -> list[int]:
        """For each of some requests the row that follows the token of a row; 0 if that was not guessed."""
        found = []
        for i, row, token_id in zip(members, rows, token_ids, strict=True):
            draft, first = self._guesses[i]
            after = draft.row_after(row - first, token_id)
            found.append(first + after if after else 0)
        return found


class BeamPlan(RowPlan):
    """One row for each request; those of beam searches draw nothing, the searches do."""

    def __init__(self, inputs: InputBatch, slots: Slots, groups: Sequence[BeamGroup]) -> None:
        super().__init__(inputs)
        self.is_whole = False
        self.groups = groups
        self._slots = slots

    def rounds(self, step: Step) -> Iterable[Round]:
        inputs = self.inputs
        searching = {request_id for group in self.groups for request_id in group.request_ids}
        drawing = [i for i, request_id in enumerate(inputs.ids) if request_id not in searching]
        if drawing:
            yield Round(inputs.part(self._slots, drawing), inputs.places[drawing], drawing)


class AheadDraw:
    """Rows of a step with drafts for one pass of the backend: all that it may draw before it is known which
    drafts are right, and the first rows of all others. Rounds go through them afterwards, and count the rows
    that they reach.

    batch     the rows for the backend.
    is_drawn  whether they have their tokens.
    is_sure   whether every row of a draft is among them, its mask was known, and the device can tell which
              rows count: no draft is a tree.
    """

    def __init__(self, batch: Batch, outputs: RowOutputs, is_prepared: np.ndarray) -> None:
        self.batch = batch
        self.is_drawn = False
        self.is_sure = batch.ahead is not None and bool(is_prepared.all())
        self._outputs = outputs
        self._is_prepared = is_prepared
        self._is_reached = np.zeros(outputs.n, bool)

    @classmethod
    def of(
        cls,
        grouping: Grouping,
        slots: Slots,
        masks: GrammarMasks,
        drawing: Round,
        logits: LogitRows,
        outputs: RowOutputs,
        bitmask: np.ndarray | None,
    ) -> AheadDraw | None:
        """For the first round of a step, for which `bitmask` has the masks; those of other rows are written
        there. None without drafts, or if their rows all have to wait for one another."""
        if drawing.counts is None or not grouping.looks_ahead or not any(drawing.drafts):
            return None
        inputs, drafts = drawing.inputs, drawing.drafts
        groups = grouping.ahead(inputs, drawing.rows, drawing.counts, drafts)
        if groups is None:
            return None
        unknown: list[int] = []
        if bitmask is not None:
            reading = {i: drafts[i] for i in inputs.masked if groups.is_ahead[i]}
            unknown = masks.fill_ahead(inputs.requests, reading, drawing.rows, bitmask)
        for i in groups.drafted:
            slots.pool.write_ahead(int(inputs.slots[i]), drafts[i].token_ids)
        for table in groups.tables:
            table.begin()
        guessed, first_rows = np.full(outputs.n, -1, np.int64), np.arange(outputs.n)
        is_prepared = np.ones(outputs.n, bool)
        for i, (first, draft) in enumerate(zip(drawing.rows.tolist(), drafts, strict=True)):
            guessed[first + 1 : first + 1 + len(draft)] = draft.token_ids
            first_rows[first : first + 1 + len(draft)] = first
            is_prepared[first + 1 : first + 1 + len(draft)] = groups.is_ahead[i]
        is_prepared[unknown] = False
        errors: list[Any] = [None] * outputs.n
        batch = Batch(
            logits, groups.groups, outputs.token_ids, outputs.notes, errors, bitmask, cache=groups.cache
        )
        if all(draft.is_chain for draft in drafts):
            batch.ahead = guessed, first_rows
        return cls(batch, outputs, is_prepared)

    def has(self, rows: np.ndarray) -> np.ndarray:
        """bool [n], which of these rows have been drawn."""
        return self._is_prepared[rows]

    def reach(self, rows: np.ndarray) -> None:
        """These rows count."""
        self.is_drawn = True
        self._is_reached[rows] = True

    def drop(self) -> bool:
        """Leave rows that do not count without tokens and notes. Returns whether they are those behind a
        wrong guess, and no others, as far as the backend can tell."""
        outputs, dropped = self._outputs, ~self._is_reached
        before = np.roll(outputs.token_ids, 1)
        outputs.token_ids[dropped], outputs.notes[dropped] = -1, np.nan
        if self.batch.ahead is None:
            return False
        guessed, first_rows = self.batch.ahead
        wrong = np.cumsum((guessed >= 0) & (guessed != before))
        return bool(((wrong == wrong[first_rows]) == self._is_reached).all())
