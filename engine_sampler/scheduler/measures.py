"""The `StepMeasures` of a step, made only if an observer wants them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import numpy as np

from ..contract import StepMeasures
from ..requests.results import StepResult


def step_measures(
    result: StepResult,
    drafts: Sequence[Sequence[int]] | None,
    backend: str,
    seconds: float,
    mask_seconds: float,
    copied_bytes: int = 0,
) -> StepMeasures:
    """What the step with this result did; `drafts` are those of each of its requests."""
    gone = set(result.skipped)
    without = np.flatnonzero(result.token_ids[result.first_rows] < 0).tolist()
    return StepMeasures(
        backend,
        seconds,
        mask_seconds,
        rows=len(result.token_ids),
        tokens=int(np.count_nonzero(result.token_ids >= 0)),
        postponed=sum(result.finish_reasons[i] is None for i in without),
        faults=sum(error is not None and i not in gone for i, error in enumerate(result.errors)),
        drafted=_per_position(len(draft) for draft in drafts or ()),
        accepted=_per_position(max(len(result.tokens(i)) - 1, 0) for i in range(len(drafts or ()))),
        copied_bytes=copied_bytes,
    )


def _per_position(lengths: Iterable[int]) -> tuple[int, ...]:
    """How many of the `lengths` reach beyond each position."""
    return tuple(sum(reached) for reached in zip_longest(*([1] * n for n in lengths), fillvalue=0))
