"""`InputBatch`: the requests of a step in row order, with everything derived from its membership."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..contract import Chain, Group, Rows
from .logprobs import LogprobsPlan
from .request import Request
from .slots import Slots

Key = tuple[Any, ...]


@dataclass
class Configuration:
    """The shape of a chain with its plan; requests of one configuration run together."""

    key: Key
    chain: Chain
    plan: Any
    masked: bool
    want_processed: bool
    edits: Any


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
        )


class InputBatch:
    """The requests of a step in row order. It is built once and used until a request joins or leaves.

    requests    in row order; `ids` and `seeds` are theirs.
    slots       int64 [n], their slot numbers.
    indices     int64 [n], 0 to n − 1: the rows of the logits if every request has one row.
    always      bool [n], which of them must be checked after every token; None if none must.
    masked      the indices of those with a grammar.
    scored      the indices of those that need logprobs.
    logprobs    which logprobs they need; None if none does.
    streamed    the indices of those with text.
    members, groups  the requests by configuration, and the groups where every request has one row; None until
                `Grouping` sets them.
    cache       what the backend keeps for these groups in these rows.
    """

    def __init__(self, slots: Slots, requests: Sequence[Request]) -> None:
        self.requests = list(requests)
        self.ids = [r.id for r in self.requests]
        self.seeds = [r.seed for r in self.requests]
        self.slots = np.array([r.slot for r in self.requests], np.int64)
        self.indices = np.arange(len(self.requests))
        always = slots.always[self.slots]
        self.always = always if always.any() else None
        self.masked = [i for i, r in enumerate(self.requests) if r.grammar is not None]
        self.scored = [i for i, r in enumerate(self.requests) if r.needs_logprobs]
        self.streamed = [i for i, r in enumerate(self.requests) if r.text is not None]
        self.logprobs = LogprobsPlan(self.requests, slots.vocabulary.size) if self.scored else None
        self.members: list[Members] | None = None
        self.groups: list[Group] | None = None
        self.cache: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self.requests)
