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
) -> dict[int, BaseException]:
    """Fill row rows[i] of `bitmask`, C-contiguous int32 [rows, words], with the mask of matcher i. A row that
    fails is all 0, and has no effect on the others.

    work  what bounded matchers may do.

    Returns the faults, `UnfinishedError` among them if `work` was too little, by row.
    """
    faults: dict[int, BaseException] = {}
    width = bitmask.shape[1]
    together = [i for i, matcher in enumerate(matchers) if _may_share(matcher, width)]
    if len(together) < len(matchers):
        for i in sorted({*range(len(matchers))} - {*together}):
            fault = _fill_alone(matchers[i], bitmask[rows[i]], work)
            if fault is not None:
                faults[rows[i]] = fault
        matchers, rows = [matchers[i] for i in together], [rows[i] for i in together]
    if matchers:
        faults |= fill_rows(matchers, bitmask, rows, work)
    return faults


def _may_share(matcher: Any, width: int) -> bool:
    """Whether a matcher may write to an array with rows of others, of `width` words: one in C that fits."""
    return isinstance(matcher, NativeMatcher) and matcher.grammar.vocabulary.words <= width


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
