"""A backend that does not support every sampler, and the host for the chains that it lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arithmetic import LogitRows, Logprobs
from ..contract import Backend, Batch, Chain, Group, Rows, Sampler, Selection, Selector, SlotTable
from .host_run import HostRun
from .numpy import NumpyBackend


@dataclass(frozen=True)
class _Plan:
    """A chain, the backend that runs it, and its plan there."""

    chain: Chain
    runner: Backend
    plan: Any


def supports_all(backend: Backend, chain: Chain) -> bool:
    """Whether `backend` supports every sampler of `chain` and its selector."""
    parts: list[Sampler | Selector] = [*chain.samplers, chain.selector]
    return all(backend.supports(part) for part in parts)


class HostedBackend(Backend):
    """Runs the chains that `backend` supports on it, and all others on the host."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._host = NumpyBackend()
        self.name = backend.name  # type: ignore[misc]
        self.exact = backend.exact  # type: ignore[misc]

    def score(self, device: str) -> float:
        return self._backend.score(device)

    def reads_from(self, device: str) -> bool:
        return self._backend.reads_from(device)

    def supports(self, sampler: Sampler | Selector) -> bool:
        return self._backend.supports(sampler)

    def runs_as(self, sampler: Sampler | Selector) -> str:
        return self._backend.runs_as(sampler)

    def compile(self, chain: Chain) -> _Plan:
        runner = self._backend if supports_all(self._backend, chain) else self._host
        return _Plan(chain, runner, runner.compile(chain))

    def apply(self, plan: _Plan, logits: np.ndarray, rows: Rows) -> None:
        plan.runner.apply(plan.plan, logits, rows)

    def select(self, plan: _Plan, logits: np.ndarray, rows: Rows) -> Selection:
        return plan.runner.select(plan.plan, logits, rows)

    def run(self, batch: Batch) -> None:
        if self not in batch.cache:
            batch.cache[self] = self._sorted(batch.groups)
        for runner, groups, cache in batch.cache[self]:
            if runner is self._host:
                host = HostRun(self.name)
                host.run(batch, groups, "unsupported")
                host.tell()
                continue
            part = replace(batch, groups=groups, cache=cache)
            runner.run(part)
            if len(groups) == len(batch.groups):
                batch.token_ids_on_device = part.token_ids_on_device

    def begin(self, batch: Batch) -> Callable[[], None] | None:
        if self not in batch.cache:
            batch.cache[self] = self._sorted(batch.groups)
        if len(batch.cache[self]) != 1 or batch.cache[self][0][0] is not self._backend:
            self.run(batch)
            return None
        _, groups, cache = batch.cache[self][0]
        part = replace(batch, groups=groups, cache=cache)
        rest = self._backend.begin(part)
        batch.token_ids_on_device = part.token_ids_on_device
        if rest is None:
            return None

        def finish() -> None:
            rest()
            batch.token_ids_on_device = part.token_ids_on_device

        return finish

    def process(self, batch: Batch) -> Any:
        if not all(self._is_own(group) for group in batch.groups):
            return None
        return self._backend.process(
            replace(batch, groups=[_for(self._backend, group) for group in batch.groups], cache={})
        )

    def prepare_masks(self, bitmask: np.ndarray, rows: Sequence[int], device: str) -> Any:
        return self._backend.prepare_masks(bitmask, rows, device)

    def decisions(self, slots: SlotTable, plan: _Plan | None = None) -> tuple[int, int]:
        if plan is not None and plan.runner is not self._backend:
            return 0, 0
        return self._backend.decisions(slots, None if plan is None else plan.plan)

    def logprobs(self, logits: LogitRows, token_ids: np.ndarray, top_n: int) -> Logprobs | None:
        return self._backend.logprobs(logits, token_ids, top_n)

    def _sorted(self, groups: Sequence[Group]) -> list[tuple[Backend, list[Group], dict[Any, Any]]]:
        """The groups by the backend that runs them, with its plans, and a cache for each."""
        own = [group for group in groups if self._is_own(group)]
        hosted = [group for group in groups if not self._is_own(group)]
        return [
            (runner, [_for(runner, group) for group in part], {})
            for runner, part in ((self._backend, own), (self._host, hosted))
            if part
        ]

    def _is_own(self, group: Group) -> bool:
        return all(plan is None or plan.runner is self._backend for plan in (group.plan, group.edits))


def _for(runner: Backend, group: Group) -> Group:
    """The group with the plans of `runner`."""

    def plan_of(plan: _Plan | None) -> Any:
        if plan is None or plan.runner is runner:
            return None if plan is None else plan.plan
        return runner.compile(plan.chain)

    return replace(group, plan=plan_of(group.plan), edits=plan_of(group.edits))
