"""Rows of a step, grouped by configuration key; groups are kept until the membership changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .chain import Chain
from .contract import Backend, Group
from .request import Request
from .rows import Rows
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
    """The requests of one configuration: their places in the step's list, and their rows."""

    configuration: Configuration
    places: np.ndarray
    rows: Rows


class Grouping:
    """Compiles configurations once and groups requests by them."""

    def __init__(self, slots: Slots, backend: Backend) -> None:
        self._slots = slots
        self._backend = backend
        self._configurations: dict[Key, Configuration] = {}
        self._plans: dict[Key, Any] = {}
        self._cached_for: tuple[int, ...] | None = None
        self._cached: list[Members] = []

    def members(self, requests: Sequence[Request]) -> list[Members]:
        """`requests` by configuration, in order of first appearance."""
        slots = tuple(r.slot for r in requests)
        if slots != self._cached_for:
            self._cached = self._group(requests)
            self._cached_for = slots
        return self._cached

    def groups(self, requests: Sequence[Request], rows: np.ndarray) -> list[Group]:
        """Groups for a backend; `rows` [requests] are the rows of the logits."""
        return [
            Group(
                m.configuration.plan,
                rows[m.places],
                m.rows,
                m.configuration.masked,
                m.configuration.want_processed,
            )
            for m in self.members(requests)
        ]

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
        self._cached_for = None

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

    def _group(self, requests: Sequence[Request]) -> list[Members]:
        places: dict[Key, list[int]] = {}
        configurations: dict[Key, Configuration] = {}
        for place, request in enumerate(requests):
            configuration = self.configuration(request)
            configurations[configuration.key] = configuration
            places.setdefault(configuration.key, []).append(place)
        slots = np.array([r.slot for r in requests], np.int64)
        return [
            Members(configurations[key], np.array(where), Rows(self._slots, slots[where]))
            for key, where in places.items()
        ]
