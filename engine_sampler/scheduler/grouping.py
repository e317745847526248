"""Requests grouped by configuration; each chain's shape is compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.calling import call_plugin
from ..base.errors import PluginFault
from ..contract import Backend, Chain, Group, Rows
from ..requests.request import Request
from ..requests.slots import Slots
from .input_batch import Configuration, InputBatch, KeptGroups, Key, Members


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

    def ahead(self, batch: InputBatch, first_rows: np.ndarray, counts: np.ndarray) -> KeptGroups | None:
        """The rows of a batch whose request i has `counts`[i] rows from `first_rows`[i] on, if the backend
        draws all of them at once; None if some depend on more than their logits, parameters, seeds and
        positions. Kept as long as requests and rows are the same."""
        if batch.masked or batch.preparing or batch.logprobs is not None:
            return None
        key = first_rows.tobytes() + counts.tobytes()
        if batch.ahead[0] != key:
            batch.ahead = key, self._ahead(batch, first_rows, counts)
        return batch.ahead[1]

    def _ahead(self, batch: InputBatch, first_rows: np.ndarray, counts: np.ndarray) -> KeptGroups | None:
        members = self.members(batch)
        if not all(call_plugin(f"backend {self._backend.name}", self._backend.draws_ahead,
                               m.configuration.plan) for m in members):  # fmt: skip
            return None
        return KeptGroups([m.group_ahead(self._slots, first_rows, counts) for m in members], {})

    def plan_of(self, chain: Chain) -> Any:
        """The plan of a chain, compiled at its first use; raises `PluginFault`."""
        if chain.key not in self._plans:
            self._plans[chain.key] = call_plugin(
                f"backend {self._backend.name}", self._backend.compile, chain
            )
        return self._plans[chain.key]

    def configuration(self, request: Request) -> Configuration:
        """The configuration of a request, compiled at its first use; raises `PluginFault`."""
        processed = "processed" in request.logprobs_modes
        edits = request.chain.edits_only() if "penalized" in request.logprobs_modes else None
        edits_key = None if edits is None else edits.key
        chain = request.chain if processed else request.chain.for_choice()
        key = (chain.key, request.grammar is not None, processed, edits_key)
        found = self._configurations.get(key)
        if found is None:
            plan = None if edits is None else self.plan_of(edits)
            found = Configuration(key, chain, self.plan_of(chain), key[1], processed, plan)
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
