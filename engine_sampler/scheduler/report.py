"""`GroupReport`: which requests share a chain, and which backend runs each step of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..backends.choose import runner_of
from ..contract import Backend, Chain, Sampler, Selector


@dataclass(frozen=True)
class GroupReport:
    """One group of a scheduler's live requests, and the backend that runs each step of their chain."""

    request_ids: list[Any]
    steps: list[tuple[str, str]]
    """(sampler or selector, backend), in order."""

    def __str__(self) -> str:
        chain = " → ".join(f"{name} ({backend})" for name, backend in self.steps)
        return f"{len(self.request_ids)} rows: {chain}"


def report_group(chain: Chain, backend: Backend, request_ids: list[Any]) -> GroupReport:
    """The report on requests that share `chain`."""
    parts: list[Sampler | Selector] = [*chain.samplers, chain.selector]
    return GroupReport(request_ids, [(part.name, runner_of(backend, part).name) for part in parts])
