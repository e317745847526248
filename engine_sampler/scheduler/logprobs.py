"""The logprobs of a step: collected row by row before the tokens are accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..arithmetic import Logprobs, RowLogprobs, gather, row_logprobs
from ..contract import Batch
from .request import Request
from .results import LogprobsByMode

Penalized = Callable[[Request, np.ndarray], np.ndarray]
"""A request and its row of logits → the row after masks, biases and penalties."""


class LogprobsCollector:
    """The logprobs that the requests of one step need."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._log_totals: dict[int, float] = {}
        self._by_mode: dict[str, dict[int, RowLogprobs]] = {}
        self._several = False

    def set_log_totals(self, log_totals: Mapping[int, float]) -> None:
        """`log_sum_exp` of rows as they were given, as far as the backend has it."""
        self._log_totals.update(log_totals)

    def add(
        self, request: Request, row: int, token_id: int, batch: Batch, penalized: Penalized
    ) -> float | None:
        """Collect the logprobs of `token_id`, drawn in `row`; returns its raw logprob if the request records
        it."""
        modes = request.logprobs_modes
        self._several |= len(modes) > 1
        for mode in modes:
            top_n = request.params.logprobs
            if mode == "processed":
                ids, logits = batch.survivors[row]
                entry = row_logprobs(logits, token_id, top_n, ids)
            elif mode == "penalized":
                entry = row_logprobs(penalized(request, batch.logits.row(row)), token_id, top_n)
            else:
                entry = self._raw(batch, row, token_id, top_n)
            self._by_mode.setdefault(mode, {})[row] = entry
        if request.raw_logprobs is None:
            return None
        return float(self._raw(batch, row, token_id, 0).logprobs[0])

    def _raw(self, batch: Batch, row: int, token_id: int, top_n: int) -> RowLogprobs:
        return row_logprobs(batch.logits.row(row), token_id, top_n, log_total=self._log_totals.get(row))

    def result(self) -> LogprobsByMode:
        """One `Logprobs` if every request needs one mode, a dict by mode if any needs several."""
        if not self._by_mode:
            return None
        if self._several:
            return {mode: self._gathered(entries) for mode, entries in self._by_mode.items()}
        together: dict[int, RowLogprobs] = {}
        for entries in self._by_mode.values():
            together |= entries
        return self._gathered(together)

    def _gathered(self, entries: Mapping[int, RowLogprobs]) -> Logprobs:
        return gather([entries.get(row) for row in range(self._rows)])
