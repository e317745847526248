"""The masks of a step: those of the engine in C in one call, those of any other matcher one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...contract import Work
from ...contract.constraints import fill_each
from .native import NativeMatcher, fill_rows


def fill_masks(
    matchers: Sequence[Any], bitmask: np.ndarray, rows: Sequence[int], work: Work | None = None
) -> dict[int, BaseException]:
    """`contract.constraints.fill_each`, with one call for the matchers of the engine in C."""
    faults: dict[int, BaseException] = {}
    width = bitmask.shape[1]
    together = [i for i, matcher in enumerate(matchers) if _may_share(matcher, width)]
    if len(together) < len(matchers):
        alone = sorted({*range(len(matchers))} - {*together})
        faults = fill_each([matchers[i] for i in alone], bitmask, [rows[i] for i in alone], work)
        matchers, rows = [matchers[i] for i in together], [rows[i] for i in together]
    if matchers:
        faults |= fill_rows(matchers, bitmask, rows, work)
    return faults


def _may_share(matcher: Any, width: int) -> bool:
    """Whether a matcher may write to an array with rows of others, of `width` words: one in C that fits."""
    return isinstance(matcher, NativeMatcher) and matcher.grammar.vocabulary.words <= width
