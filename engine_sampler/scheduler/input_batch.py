"""`InputBatch`: the requests of a step in row order, with everything derived from its membership."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..contract import Chain, Group, Rows
from ..requests.drafted import Draft, DraftedSlots
from ..requests.draws import DrawnTokens, RowOutputs
from ..requests.request import Preparing, Request
from ..requests.results import RequestId
from ..requests.slots import Slots
from .logprobs import LogprobsPlan

Key = tuple[Any, ...]

_MOST_PARTS = 8
"""The most parts of a batch that are kept."""


@dataclass
class KeptGroups:
    """Groups in certain rows, and what the backend keeps for them."""

    groups: list[Group]
    cache: dict[Any, Any]


@dataclass
class GroupsAhead(KeptGroups):
    """Groups with rows for drafts.

    is_ahead  bool [n], whether the rows of a request's draft are among them.
    drafted   the requests, by number, whose histories the rows show with the drafts in them.
    tables    what shows them.
    """

    is_ahead: np.ndarray
    drafted: Sequence[int]
    tables: Sequence[DraftedSlots]


@dataclass
class Configuration:
    """The shape of a chain with its plan; requests of one configuration run together."""

    key: Key
    chain: Chain
    plan: Any
    masked: bool
    want_processed: bool
    edits: Any
    want_survivors: bool


@dataclass
class Members:
    """The requests of one configuration: their indices in the batch, and their rows."""

    configuration: Configuration
    indices: np.ndarray
    rows: Rows

    def group(self, logit_rows: np.ndarray) -> Group:
        """The group for a backend; request i of the batch has the row `logit_rows`[i] of the logits."""
        configuration = self.configuration
        return Group(
            configuration.plan,
            logit_rows[self.indices],
            self.rows,
            configuration.masked,
            configuration.want_processed,
            configuration.edits,
            configuration.want_survivors,
        )

    def group_ahead(
        self,
        slots: Slots,
        first_rows: np.ndarray,
        counts: np.ndarray,
        drafts: Sequence[Draft],
        *,
        has_drafts: bool,
    ) -> Group:
        """The same if request i of the batch has `counts`[i] rows from `first_rows`[i] on: its own, and one
        for each guess of `drafts`[i], whose history ends with the draft if it `has_drafts`."""
        each = counts[self.indices]
        ends = np.cumsum(each)
        place = np.arange(ends[-1]) - np.repeat(ends - each, each)
        lead = np.concatenate([drafts[i].depths[: counts[i]] for i in self.indices.tolist()])
        numbers = np.repeat(self.rows.slot_numbers, each)
        if has_drafts:
            rows = Rows(DraftedSlots(slots, numbers, lead), np.arange(len(numbers)))
        else:
            rows = Rows(slots, numbers, lead)
        group = self.group(first_rows)
        return replace(group, index=np.repeat(group.index, each) + place, rows=rows)


class InputBatch:
    """The requests of a step in row order. It is built once and used until a request joins or leaves.

    named       the ids that the step names, in row order.
    skipped     those of them that are skipped since their requests have left, as (index in `named`, request
                or None if it has been removed).
    requests    the others, in row order; `ids` and `seeds` are theirs.
    slots       int64 [n], their slot numbers.
    draws       the tokens that they draw, step after step.
    all_indices 0 to n − 1.
    places      int64 [n], their indices in `named`: the rows of the logits if every request has one row.
    masked      the indices of those whose rows have masks: of a grammar, of bans, or to heal a token.
    narrowed    the indices of those of them whose masks are not their grammars' alone.
    preparing   the samplers that prepare, each with its request as a single row, by the request's index.
    scored      the indices of those that need logprobs.
    steered     the indices of those whose next token may be another one than the drawn.
    logprobs    which logprobs they need; None if none does.
    readers     those whose answers are read, skipped ones among them, by index in `named`.
    streamed    the indices of those with text.
    members, groups  the requests by configuration, and the groups where every request has one row; None until
                `Grouping` sets them.
    cache       what the backend keeps for these groups in these rows.
    spread      the groups of the last step with drafts and what the backend keeps for them, see
                `Grouping.spread`; `ahead`: those of all rows, if they were drawn together, see
                `Grouping.ahead`.
    processed   the groups for `Scheduler.process` and what the backend keeps for them, by `before_choice`.
    is_everyone  whether it has all live requests.
    """

    def __init__(
        self,
        slots: Slots,
        requests: Sequence[Request],
        named: Sequence[RequestId] | None = None,
        skipped: Sequence[tuple[int, Request | None]] = (),
        *,
        is_everyone: bool = False,
    ) -> None:
        self.is_everyone = is_everyone
        self.requests = list(requests)
        self.ids = [r.id for r in self.requests]
        self.named = self.ids if named is None else list(named)
        self.skipped = skipped
        self.seeds = [r.seed for r in self.requests]
        self.slots = np.array([r.slot for r in self.requests], np.int64)
        self.draws = DrawnTokens(self.slots)
        self.all_indices = range(len(self.requests))
        self.places = np.delete(np.arange(len(self.named)), [i for i, _ in skipped])
        self.masked = [i for i, r in enumerate(self.requests) if r.is_masked]
        self.narrowed = [i for i in self.masked if self.requests[i].is_narrowed]
        self.preparing: dict[int, Preparing] = {
            i: r.attempt("a sampler", r.preparing, slots, otherwise=())
            for i, r in enumerate(self.requests)
            if r.chain.preparing
        }
        self.scored = [i for i, r in enumerate(self.requests) if r.needs_logprobs]
        self.steered = [i for i, r in enumerate(self.requests) if r.phases.steers]
        everyone = [*zip(self.places.tolist(), self.requests, strict=True), *skipped]
        self.readers = {i: r for i, r in everyone if r is not None and r.answer is not None}
        self.streamed = [i for i, r in enumerate(self.requests) if r.text is not None]
        self.logprobs = LogprobsPlan(self.requests, slots.vocabulary.size) if self.scored else None
        self.members: list[Members] | None = None
        self.groups: list[Group] | None = None
        self.cache: dict[Any, Any] = {}
        self.spread: tuple[bytes, KeptGroups | None] = b"", None
        self.ahead: tuple[bytes, GroupsAhead | None] = b"", None
        self.may_look_ahead: np.ndarray | None = None
        self.processed: dict[bool, tuple[list[Group], dict[Any, Any]]] = {}
        self._parts: dict[tuple[int, ...], InputBatch] = {}
        self._outputs: RowOutputs | None = None

    def __len__(self) -> int:
        return len(self.requests)

    def outputs_of(self, rows: int) -> RowOutputs:
        """Outputs for a step with more rows than requests, all without tokens: the same ones as long as the
        number of rows is the same, to which the backend points already."""
        if self._outputs is None or self._outputs.n != rows or not self._outputs.are_in_shape:
            self._outputs = RowOutputs(rows)
        self._outputs.clear()
        return self._outputs

    def part(self, slots: Slots, indices: Sequence[int]) -> InputBatch:
        """The requests at these indices alone: the same object as long as it serves."""
        requests = [self.requests[i] for i in indices]
        # Into another phase, since this was built; a mask of bans is for one round.
        if self.narrowed or any(request.has_moved for request in requests):
            return InputBatch(slots, requests)
        if len(requests) == len(self.requests) and not self.skipped:
            return self
        key = tuple(indices)
        if key not in self._parts:
            if len(self._parts) == _MOST_PARTS:
                self._parts.clear()
            self._parts[key] = InputBatch(slots, requests)
        return self._parts[key]
