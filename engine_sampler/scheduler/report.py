"""`GroupReport`: which requests share a chain, and what runs each step of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..backends.choose import runner_of
from ..contract import Backend, Chain, Sampler, Selector
from ..requests.request import Request


@dataclass(frozen=True)
class GroupReport:
    """One group of a scheduler's live requests, and what runs each step of their chain."""

    request_ids: list[Any]
    steps: list[tuple[str, str]]
    """(sampler or selector, what runs it), in order: a backend's name; or, within a compiled backend,
    "Python" for a plugin's class, "C row function" for its C function."""
    decisions: tuple[int, int] = (0, 0)
    """Of the rows of this chain so far: how many draws and cuts bounds of the weights decided, and for how
    many the whole row was weighed after all, in a second pass. Both are 0 for chains that need no sum of the
    weights of a whole row, and where the backend knows no bounds."""

    drafters: tuple[str, ...] = ()
    """What drafts for any of the requests, as their parameters name it."""

    def __str__(self) -> str:
        chain = " → ".join(f"{name} ({backend})" for name, backend in self.steps)
        weighed, tried = self.decisions[1], sum(self.decisions)
        counted = f"; {weighed:,} of {tried:,} decisions took a second pass" if tried else ""
        drafted = f"; drafts: {', '.join(self.drafters)}" if self.drafters else ""
        return f"{len(self.request_ids)} rows: {chain}{counted}{drafted}"


def report_group(
    chain: Chain,
    backend: Backend,
    requests: Sequence[Request],
    decisions: tuple[int, int] = (0, 0),
) -> GroupReport:
    """The report on requests that share `chain`, of whose rows bounds have decided `decisions`."""
    parts: list[Sampler | Selector] = [*chain.samplers, chain.selector]
    steps = [(part.name, runner_of(backend, part, chain).runs_as(part)) for part in parts]
    drafters = dict.fromkeys(name for request in requests for name in request.params["drafter"] or ())
    return GroupReport([request.id for request in requests], steps, decisions, tuple(drafters))
