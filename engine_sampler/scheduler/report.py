"""What is told of steps and of groups: `StepMeasures`, only if an observer wants them, and `GroupReport`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.choose import runner_of
from ..base.calling import call_plugin
from ..base.errors import PluginFault
from ..contract import Backend, Chain, Sampler, Selector, SlotTable, StepMeasures
from ..requests.drafted import Draft
from ..requests.request import Request
from ..requests.results import StepResult

logger = logging.getLogger("engine_sampler")

_NO_TOKEN = np.int64(-1).tobytes()


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


def step_measures(
    result: StepResult,
    drafts: Sequence[Draft] | None,
    backend: str,
    seconds: float,
    mask_seconds: float,
    copied_bytes: int = 0,
    decisions: tuple[int, int] = (0, 0),
) -> StepMeasures:
    """What the step with this result did; `drafts` are those of each of its requests, `decisions` what
    `Backend.decisions` counts."""
    if not drafts and _is_uneventful(result):
        rows = len(result.token_ids)
        return StepMeasures._make(
            (backend, seconds, mask_seconds, rows, rows, 0, 0, (), (), copied_bytes, *decisions)
        )
    gone = set(result.skipped)
    without = np.flatnonzero(result.token_ids[result.first_rows] < 0).tolist()
    drafted, accepted = _drafts_by_position(result, drafts) if drafts else ((), ())
    return StepMeasures(
        backend,
        seconds,
        mask_seconds,
        rows=len(result.token_ids),
        tokens=int(np.count_nonzero(result.token_ids >= 0)),
        postponed=sum(result.finish_reasons[i] is None for i in without),
        faults=sum(error is not None and i not in gone for i, error in enumerate(result.errors)),
        drafted=drafted,
        accepted=accepted,
        copied_bytes=copied_bytes,
        certain=decisions[0],
        weighed=decisions[1],
    )


def decisions_of(backend: Backend, slots: SlotTable, plan: Any = None) -> tuple[int, int]:
    """`Backend.decisions`; (0, 0) where it fails, or gives anything but two counts."""

    def two_counts() -> tuple[int, int]:
        certain, weighed = backend.decisions(slots, plan)
        return max(int(certain), 0), max(int(weighed), 0)

    try:
        return call_plugin(f"backend {backend.name}", two_counts)
    except PluginFault as fault:
        logger.debug("nothing is known of decisions: %s", fault)
        return 0, 0


def _is_uneventful(result: StepResult) -> bool:
    """Whether all rows gave a token, and no request ended with an error; NumPy would take several times
    as long to find out. Huge token ids may look like a missing one, which only costs time."""
    return result.token_ids.tobytes().find(_NO_TOKEN) < 0 and result.errors.count(None) == len(result.errors)


def _drafts_by_position(
    result: StepResult, drafts: Sequence[Draft]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many requests had a draft at each position, and how many of these drafts were accepted."""
    depths = np.concatenate([draft.depths for draft in drafts])
    drafted = np.bincount([depth for draft in drafts for depth in range(1 + draft.depths.max())])[1:]
    accepted = np.bincount(depths[result.token_ids >= 0])[1:]
    return tuple(drafted.tolist()), tuple(accepted.tolist())
