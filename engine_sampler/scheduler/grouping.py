"""Who takes part in a step, grouped by configuration key: kept until the membership changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..contract import Backend, Chain, Group, Rows
from .request import Request
from .slots import Slots

Key = tuple[Any, ...]


@dataclass
class Configuration:
    """A chain's shape with its plan; requests of one configuration run together."""

    key: Key
    chain: Chain
    plan: Any
    masked: bool
    want_processed: bool


@dataclass
class Members:
    """The requests of one configuration: their places in the roster, and their rows."""

    configuration: Configuration
    places: np.ndarray
    rows: Rows

    def group(self, rows: np.ndarray) -> Group:
        """The group for a backend; `rows` [requests] are the logits' rows of the whole roster."""
        configuration = self.configuration
        return Group(
            configuration.plan,
            rows[self.places],
            self.rows,
            configuration.masked,
            configuration.want_processed,
        )


class Roster:
    """The requests of a step, and all that follows from who they are: made once, used while they stay.

    requests   in row order; `ids` and `seeds` are theirs.
    slots      int64 [n], their slot numbers.
    places     int64 [n], 0 to n − 1: the rows of the logits where every request has one.
    members    the requests by configuration, in order of first appearance.
    always     bool [n], who must be asked after every token; None if nobody.
    masked     the places of those with a grammar.
    scored     the places of those that want logprobs.
    streamed   the places of those with text.
    cache      what the backend keeps for these groups in these rows.
    """

    def __init__(
        self, slots: Slots, requests: list[Request], configuration: Callable[[Request], Configuration]
    ) -> None:
        self.requests = requests
        self.ids = [r.id for r in requests]
        self.seeds = [r.seed for r in requests]
        self.slots = np.array([r.slot for r in requests], np.int64)
        self.places = np.arange(len(requests))
        always = slots.always[self.slots]
        self.always = always if always.any() else None
        self.masked = [i for i, r in enumerate(requests) if r.matcher is not None]
        self.scored = [i for i, r in enumerate(requests) if r.is_scored]
        self.streamed = [i for i, r in enumerate(requests) if r.stream is not None]
        self.members = self._members(slots, configuration)
        self.cache: dict[Any, Any] = {}
        self._groups = [m.group(self.places) for m in self.members]

    def __len__(self) -> int:
        return len(self.requests)

    def groups(self, rows: np.ndarray) -> list[Group]:
        """The groups for a backend, where request i has the row `rows`[i] of the logits."""
        if rows is self.places:
            return self._groups
        return [m.group(rows) for m in self.members]

    def _members(self, slots: Slots, configuration: Callable[[Request], Configuration]) -> list[Members]:
        places: dict[Key, list[int]] = {}
        configurations: dict[Key, Configuration] = {}
        for place, request in enumerate(self.requests):
            found = configuration(request)
            configurations[found.key] = found
            places.setdefault(found.key, []).append(place)
        return [
            Members(configurations[key], np.array(where), Rows(slots, self.slots[where]))
            for key, where in places.items()
        ]


class Grouping:
    """Compiles configurations once, and keeps the roster of the last step."""

    def __init__(self, slots: Slots, backend: Backend) -> None:
        self._slots = slots
        self._backend = backend
        self._configurations: dict[Key, Configuration] = {}
        self._plans: dict[Key, Any] = {}
        self._kept: Roster | None = None

    def roster(self, requests: list[Request]) -> Roster:
        """The roster of `requests`, kept as long as it is asked for with the same list."""
        if self._kept is None or self._kept.requests is not requests:
            self._kept = self.some(requests)
        return self._kept

    def some(self, requests: list[Request]) -> Roster:
        """A roster for one use."""
        return Roster(self._slots, requests, self.configuration)

    def rows_of(self, request: Request) -> Rows:
        """One request as a single row."""
        return Rows(self._slots, np.array([request.slot], np.int64))

    def plan_of(self, chain: Chain) -> Any:
        """The plan of a chain that is run by itself, compiled at its first use."""
        if chain.key not in self._plans:
            self._plans[chain.key] = self._backend.compile(chain)
        return self._plans[chain.key]

    def forget(self) -> None:
        """A slot changed hands."""
        self._kept = None

    def configuration(self, request: Request) -> Configuration:
        """The configuration of a request, compiled at its first use."""
        processed = "processed" in request.modes
        chain = request.chain if processed else request.chain.for_choice()
        key = (chain.key, request.matcher is not None, processed)
        found = self._configurations.get(key)
        if found is None:
            found = Configuration(key, chain, self.plan_of(chain), key[1], processed)
            self._configurations[key] = found
        return found
