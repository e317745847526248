"""Requests grouped by configuration; each chain's shape is compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from ..base.calling import call_plugin
from ..base.errors import PluginFault
from ..contract import Backend, Chain, Group, Rows
from ..requests.drafted import DraftedSlots
from ..requests.request import Request
from ..requests.slots import Slots
from .input_batch import Configuration, GroupsAhead, InputBatch, KeptGroups, Key, Members


class WayAhead(IntEnum):
    """How rows of drafts are drawn before it is known whether the drafts are right: not at all; since draws
    follow from logits, masks, parameters, seed and position; or with histories that end with the drafts."""

    NONE, BY_POSITION, BY_HISTORY = range(3)


class Grouping:
    """Compiles configurations for a backend, and sorts the requests of a batch by them."""

    def __init__(self, slots: Slots, backend: Backend) -> None:
        self._slots = slots
        self._backend = backend
        self._configurations: dict[Key, Configuration] = {}
        self._plans: dict[Key, Any] = {}

    def members(self, batch: InputBatch) -> list[Members]:
        """The requests of a batch by configuration, in order of first appearance. Those that the backend
        cannot compile end."""
        if batch.members is None:
            batch.members = self._by_configuration(batch)
        return batch.members

    def groups(
        self, batch: InputBatch, logit_rows: np.ndarray, *, is_whole: bool, left_out: Sequence[int] = ()
    ) -> list[Group]:
        """The groups for the backend; request i of the batch has the row `logit_rows`[i] of the logits, row i
        if the batch `is_whole`. Those at the indices `left_out` are in none of them."""
        if left_out:
            members = (self._without(left_out, m) for m in self.members(batch))
            return [m.group(logit_rows) for m in members if len(m.indices)]
        if not is_whole:
            return [m.group(logit_rows) for m in self.members(batch)]
        if batch.groups is None:
            batch.groups = [m.group(logit_rows) for m in self.members(batch)]
        return batch.groups

    def spread(self, batch: InputBatch, first_rows: np.ndarray) -> KeptGroups:
        """The groups of a batch with drafts, of which request i has the row `first_rows`[i]: kept as long as
        requests and rows are the same."""
        key, kept = batch.spread
        if kept is None or key != first_rows.tobytes():
            kept = KeptGroups([m.group(first_rows) for m in self.members(batch)], {})
            batch.spread = first_rows.tobytes(), kept
        return kept

    def ahead(self, batch: InputBatch, first_rows: np.ndarray, counts: np.ndarray) -> GroupsAhead | None:
        """The rows of a batch whose request i has `counts`[i] rows from `first_rows`[i] on, as far as the
        backend draws them before it is known which drafts are right: of other requests the first rows alone.
        None if no row of a draft is among them. Kept as long as requests and rows are the same."""
        if batch.may_look_ahead is None:
            batch.may_look_ahead = np.array([r.may_look_ahead for r in batch.requests], bool)
        counts = np.where(batch.may_look_ahead, counts, 1)
        ways = [self._way_ahead(m, counts) for m in self.members(batch)]
        key = b"".join((first_rows.tobytes(), counts.tobytes(), bytes(ways)))
        if batch.ahead[0] != key:
            batch.ahead = key, self._ahead(batch, first_rows, counts, ways)
        return batch.ahead[1]

    def _way_ahead(self, members: Members, counts: np.ndarray) -> WayAhead:
        """How the backend draws the rows of drafts of a configuration."""
        name, backend, of = f"backend {self._backend.name}", self._backend, members.configuration
        plans = [of.plan] if of.edits is None else [of.plan, of.edits]
        if all(call_plugin(name, backend.draws_ahead, plan) for plan in plans):
            return WayAhead.BY_POSITION
        more = counts[members.indices] - 1
        tokens = int((more * self._slots.lengths[members.rows.slot_numbers]).sum())
        if all(call_plugin(name, backend.follows_drafts, plan, tokens) for plan in plans):
            return WayAhead.BY_HISTORY
        return WayAhead.NONE

    def _ahead(
        self, batch: InputBatch, first_rows: np.ndarray, counts: np.ndarray, ways: Sequence[WayAhead]
    ) -> GroupsAhead | None:
        is_ahead, groups, drafted = np.zeros(len(counts), bool), [], []
        for m, way in zip(self.members(batch), ways, strict=True):
            has_drafts = way is WayAhead.BY_HISTORY
            if way is not WayAhead.NONE:
                is_ahead[m.indices] = counts[m.indices] > 1
            if has_drafts:
                drafted += m.indices[is_ahead[m.indices]].tolist()
            each = np.where(is_ahead, counts, 1)
            groups.append(m.group_ahead(self._slots, first_rows, each, has_drafts=has_drafts))
        if not is_ahead.any():
            return None
        tables = [group.rows.table for group in groups if isinstance(group.rows.table, DraftedSlots)]
        return GroupsAhead(groups, {}, is_ahead, drafted, tables)

    def plan_of(self, chain: Chain) -> Any:
        """The plan of a chain, compiled at its first use; raises `PluginFault`."""
        if chain.key not in self._plans:
            self._plans[chain.key] = call_plugin(
                f"backend {self._backend.name}", self._backend.compile, chain
            )
        return self._plans[chain.key]

    def configuration(self, request: Request) -> Configuration:
        """The configuration of a request, compiled at its first use; raises `PluginFault`."""
        keeps = request.details is not None and request.details.of_survivors
        processed = keeps or "processed" in request.logprobs_modes
        edits = request.chain.edits_only() if "penalized" in request.logprobs_modes else None
        edits_key = None if edits is None else edits.key
        chain = request.chain if processed else request.chain.for_choice()
        key = (chain.key, request.grammar is not None, processed, keeps, edits_key)
        found = self._configurations.get(key)
        if found is None:
            plan = None if edits is None else self.plan_of(edits)
            found = Configuration(key, chain, self.plan_of(chain), key[1], processed, plan, keeps)
            self._configurations[key] = found
        return found

    def _without(self, left_out: Sequence[int], members: Members) -> Members:
        stays = ~np.isin(members.indices, left_out)
        rows = Rows(self._slots, members.rows.slot_numbers[stays])
        return Members(members.configuration, members.indices[stays], rows)

    def _by_configuration(self, batch: InputBatch) -> list[Members]:
        indices: dict[Key, list[int]] = {}
        configurations: dict[Key, Configuration] = {}
        for i, request in enumerate(batch.requests):
            try:
                found = self.configuration(request)
            except PluginFault as fault:
                request.fail(str(fault))
                continue
            configurations[found.key] = found
            indices.setdefault(found.key, []).append(i)
        return [
            Members(configurations[key], np.array(some), Rows(self._slots, batch.slots[some]))
            for key, some in indices.items()
        ]
