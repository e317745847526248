"""What few requests want of a step beside its logprobs: the tokens that each row was drawn from, and the
logprobs of named tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...arithmetic import GivenLogprobs, RowGiven, given_logprobs
from ...backends.scoring import given_of
from ...contract import LOGPROBS_KINDS, Backend, BackendError, Batch
from ...requests.request import Request
from ...requests.results import SamplingMask, StepDetails

Penalized = Callable[[Request, np.ndarray], np.ndarray]
"""A request and its row of logits → the row after masks, biases and penalties."""

_NO_IDS = np.empty(0, np.int32)


def survivors_of(batch: Batch, row: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids int64 [m] and logits float32 [m] that a row was drawn from. Raises `BackendError`."""
    if row not in batch.survivors:
        raise BackendError("the backend gave no survivors, which Group.want_survivors asks for")
    return batch.survivors[row]


class _MaskRow(NamedTuple):
    """A row of a sampling mask."""

    listed: np.ndarray = _NO_IDS
    is_inverted: bool = False
    is_capped: bool = False
    logprob: float = np.nan


class DetailsCollector:
    """The sampling masks, and the logprobs of named tokens, of one step with `rows` rows for requests that
    want these `details`."""

    def __init__(self, rows: int, vocab_size: int, details: Sequence[StepDetails]) -> None:
        self._rows = rows
        self._vocab_size = vocab_size
        self._masks: dict[int, _MaskRow] | None = {} if any(d.mask_cap for d in details) else None
        self._given: dict[str, dict[int, RowGiven]] = {
            kind: {} for kind in LOGPROBS_KINDS if any(kind in d.modes for d in details)
        }
        self._has_several = any(len(d.modes) > 1 for d in details)

    def add(
        self, request: Request, row: int, batch: Batch, logprob: float, penalized: Penalized, backend: Backend
    ) -> None:
        """What `request` wants of its `row`, from which a token with this processed logprob was drawn."""
        details = request.details
        assert details is not None
        if details.mask_cap and self._masks is not None:
            self._masks[row] = self._mask(survivors_of(batch, row)[0], details.mask_cap, logprob)
        for kind in details.modes:
            self._given[kind][row] = self._row_of(kind, request, row, batch, penalized, backend)

    def copy(
        self,
        details: StepDetails,
        row: int,
        masks: SamplingMask | None,
        logprobs: GivenLogprobs | None,
        their_row: int,
    ) -> None:
        """Take over what others have collected for a request with these `details`: their row for `row`."""
        if masks is not None and details.mask_cap and self._masks is not None:
            flags = bool(masks.is_inverted[their_row]), bool(masks.is_capped[their_row])
            self._masks[row] = _MaskRow(masks.listed(their_row), *flags, float(masks.logprobs[their_row]))
        for kind, table in () if logprobs is None else logprobs.by_mode.items():
            entry = table.row(their_row)
            if len(entry.token_ids):
                self._given[kind or details.modes[0]][row] = entry

    def clear(self, rows: np.ndarray) -> None:
        """Say nothing of `rows`, whose tokens were not accepted."""
        for row in rows.tolist():
            for found in (self._masks, *self._given.values()):
                if found is not None:
                    found.pop(row, None)

    def sampling_mask(self) -> SamplingMask | None:
        """Over all rows; None if no request wants one."""
        if self._masks is None:
            return None
        rows = [self._masks.get(row, _MaskRow()) for row in range(self._rows)]
        flags = {name: [getattr(row, name) for row in rows] for name in ("is_inverted", "is_capped")}
        logprobs = [row.logprob for row in rows]
        return SamplingMask.of([row.listed for row in rows], flags, logprobs, self._vocab_size)

    def given_logprobs(self) -> GivenLogprobs | None:
        """Over all rows; None if no request names tokens."""
        if not self._given:
            return None
        tables = list(self._given.values())
        first = [next((table[row] for table in tables if row in table), None) for row in range(self._rows)]
        result = GivenLogprobs.of(first)
        if not self._has_several:
            return result
        modes = {
            kind: GivenLogprobs.of([table.get(row) for row in range(self._rows)])
            for kind, table in self._given.items()
        }
        return replace(result, modes=modes)

    def _mask(self, survivors: np.ndarray, cap: int, logprob: float) -> _MaskRow:
        """The row of a mask that lists `survivors`, or those removed if these are fewer."""
        is_inverted = 2 * len(survivors) > self._vocab_size
        count = self._vocab_size - len(survivors) if is_inverted else len(survivors)
        if 0 <= cap < count:
            return _MaskRow(is_capped=True, logprob=logprob)
        listed = survivors
        if is_inverted:
            is_removed = np.ones(self._vocab_size, bool)
            is_removed[survivors] = False
            listed = np.flatnonzero(is_removed)
        return _MaskRow(listed.astype(np.int32), is_inverted, logprob=logprob)

    def _row_of(
        self, kind: str, request: Request, row: int, batch: Batch, penalized: Penalized, backend: Backend
    ) -> RowGiven:
        """The logprobs of the tokens that `request` names, in the distribution of this kind."""
        assert request.details is not None
        token_ids = request.details.given_ids
        if kind == "processed":
            ids, logits = survivors_of(batch, row)
            return given_logprobs(logits, token_ids, ids)
        values = batch.logits.row(row)
        if kind == "raw":
            return given_of(values, token_ids, backend)
        return given_logprobs(
            penalized(request, values), token_ids
        )  # biases may lead beyond what rows may have
