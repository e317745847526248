"""What the first part of a chain leaves of each row: survivors, which the host goes on with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ....backends.library.header import number
from ....backends.library.segmented import chain_of
from ....contract import Chain, Group
from ..bench import expected_of, where_of
from ..observing import LibraryStep, Observed
from .room import RoomOnDevice

_CUT_AGAIN = ("top_k", "min_p")
"""The samplers after which ties may be kept."""


def cut_of(room: RoomOnDevice, chain: Chain, *, masked: bool = False) -> tuple[Any, ...] | None:
    """The longest first part of a chain whose survivors the library leaves; None if there is none."""
    for n in range(len(chain.samplers), 0, -1):
        first = chain.samplers[:n]
        answer = room.answer(first, masked=masked)
        if answer is None or not answer.promise("SURVIVORS") or answer.max_survivors < 1:
            continue
        if answer.ties == number("ES_TIES_KEPT") and not all(part.name in _CUT_AGAIN for part in first):
            continue
        return first
    return None


def cut_step(room: RoomOnDevice, step: LibraryStep) -> LibraryStep | None:
    """The step with the first parts of its chains alone; None if some have none."""
    entries: list[tuple[Group, tuple[Any, ...]]] = []
    for group, _ in step.entries:
        first = cut_of(room, group.plan, masked=group.masked)
        if first is None:
            return None
        entries.append((replace(group, want_processed=False), first))
    cut = replace(step, entries=entries, logprobs=None)
    width = (
        min(room.limits(cut).max_survivors, room.size) + (len(step.index) + 1) % 3
    )  # at least what is needed
    return replace(cut, width=width)


def wrong_survivors(room: RoomOnDevice, step: LibraryStep, observed: Observed) -> str | None:
    """The first row whose survivors are not those of its program."""
    if observed.code != number("ES_OK"):
        return None
    expected = _expected(step)
    answers = [room.answer(parts, masked=group.masked) for group, parts in step.entries]
    first = 0
    for (group, parts), answer in zip(step.entries, answers, strict=True):
        assert answer is not None, "query takes a program, and then declines it"
        for i, row in enumerate(group.index.tolist(), first):
            if observed.status[i] != number("ES_ROW_OK"):
                if observed.status[i] != number("ES_ROW_DECLINED") and row in expected:
                    return f"status {observed.status[i]} {where_of(step, i)}, which has survivors"
                continue
            if row not in expected:
                return f"survivors {where_of(step, i)}, which has none"
            problem = _wrong_form(step, observed.left[row], row)
            if problem is None and answer.promise("EXACT"):
                kept = answer.ties == number("ES_TIES_KEPT")
                given, alone = _given(step, row), len(parts) == 1
                problem = _wrong_rest(observed.left[row], expected[row], given, kept=kept, alone=alone)
            if problem is None and answer.max_survivors < len(observed.left[row][0]):
                problem = f"more than {answer.max_survivors} survivors"
            if problem is not None:
                return f"{problem} {where_of(step, i)}"
        first += len(group.index)
    return None


def _expected(step: LibraryStep) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """(ids, logits) that NumPy leaves of each row that has no error."""
    entries = [
        (replace(group, plan=chain_of(parts), want_processed=True), parts) for group, parts in step.entries
    ]
    batch = expected_of(replace(step, entries=entries))
    return {row: left for row, left in batch.survivors.items() if batch.errors[row] is None}


def _given(step: LibraryStep, row: int) -> np.ndarray:
    """A row as it is given, without what its mask removes."""
    values = np.array(step.logits.row(row))
    if step.bitmask is not None and any(group.masked and row in group.index for group, _ in step.entries):
        bits = np.unpackbits(step.bitmask[row].view(np.uint8), bitorder="little")[: len(values)]
        values[bits == 0] = -np.inf
    return values


def _wrong_form(step: LibraryStep, left: tuple[np.ndarray, np.ndarray], row: int) -> str | None:
    ids, logits = left
    if (np.diff(ids) <= 0).any():
        return "survivors that do not ascend"
    if len(ids) and (ids[0] < 0 or ids[-1] >= step.session.vocab_size):
        return "survivors that are no tokens"
    if not np.isfinite(logits).all():
        return "survivors whose logits are not finite"
    return None


def _wrong_rest(
    left: tuple[np.ndarray, np.ndarray],
    right: tuple[np.ndarray, np.ndarray],
    row_logits: np.ndarray,
    *,
    kept: bool,
    alone: bool,
) -> str | None:
    """`kept`: whether ties are kept, beside the tokens `right`; `alone`: whether there is one cut, so that
    each of those equals a token that is kept anyhow."""
    ids, logits = left
    missing, extra = np.setdiff1d(right[0], ids), np.setdiff1d(ids, right[0])
    if len(missing):
        return f"token {missing[0]} is missing among {len(ids)} survivors"
    if kept:
        strangers = (
            extra[~np.isin(row_logits[extra], right[1])] if alone else extra[row_logits[extra] == -np.inf]
        )
        if len(strangers):
            return f"token {strangers[0]} survives, which ties with none"
        same = np.array_equal(logits, row_logits[ids])
    elif len(extra):
        return f"token {extra[0]} survives"
    else:
        same = np.array_equal(logits, right[1])
    return None if same else "other logits of survivors"
