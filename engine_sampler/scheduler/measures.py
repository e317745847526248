"""The `StepMeasures` of a step, made only if an observer wants them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.calling import call_plugin
from ..base.errors import PluginFault
from ..contract import Backend, SlotTable, StepMeasures
from ..requests.drafted import Draft
from ..requests.results import StepResult

logger = logging.getLogger("engine_sampler")

_NO_TOKEN = np.int64(-1).tobytes()


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
