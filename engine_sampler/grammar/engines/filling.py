"""The masks of a step: those of the engine in C in one call, those of any other matcher one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import INTERRUPTIONS
from ...contract import Work, is_bounded
from .native import NativeMatcher, fill_rows


def fill_masks(
    matchers: Sequence[Any], bitmask: np.ndarray, rows: Sequence[int], work: Work | None = None
) -> list[BaseException | None]:
    """Fill row rows[i] of `bitmask`, C-contiguous int32 [rows, words], with the mask of matcher i. A row that
    fails is all 0, and has no effect on the others.

    work  what bounded matchers may do.

    Returns the fault of each matcher, `UnfinishedError` if `work` was too little, or None for it.
    """
    faults: list[BaseException | None] = [None] * len(matchers)
    together: list[int] = []
    for i, matcher in enumerate(matchers):
        if _may_share(bitmask, matcher):
            together.append(i)
        else:
            faults[i] = _fill_alone(matcher, bitmask[rows[i]], work)
    if together:
        found = fill_rows([matchers[i] for i in together], bitmask, [rows[i] for i in together], work)
        for i, fault in zip(together, found, strict=True):
            faults[i] = fault
    return faults


def _may_share(bitmask: np.ndarray, matcher: Any) -> bool:
    """Whether a matcher may write to an array with rows of others: one in C, if they are wide enough."""
    return isinstance(matcher, NativeMatcher) and matcher.grammar.vocabulary.words <= bitmask.shape[1]


def _fill_alone(matcher: Any, row: np.ndarray, work: Work | None) -> BaseException | None:
    """Fill one row through an array of its own: a plugin can write to no other row. Returns the fault."""
    own = np.zeros((1, len(row)), np.int32)
    try:
        if work is not None and is_bounded(matcher):
            matcher.fill_bitmask(own.view(), 0, work=work)
        else:
            matcher.fill_bitmask(own.view(), 0)
    except INTERRUPTIONS:
        raise
    except BaseException as fault:
        row[:] = 0
        return fault
    row[:] = own[0]
    return None
