"""The requests that are cached from call to call: counts, seeds and positions, in schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...arithmetic import LogitRows
from ...contract import Backend
from ...params import SamplingParams
from ...scheduler import Scheduler, StepResult
from .errors import InconsistencyError
from .histories import HistoryRow
from .settings import with_seed


class CallerMask:
    """A grammar matcher whose mask comes from the caller: the tokens allowed at the next position."""

    def __init__(self) -> None:
        self.words = np.zeros(0, np.int32)
        """int32 [ceil(vocab / 32)], bit 1 = allowed; set before every step."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        bitmask[row] = self.words

    def accept(self, token_id: int) -> bool:
        return True

    def rollback(self, n: int) -> None:
        """Nothing to undo: the caller sets the mask before every step."""

    def fork(self) -> CallerMask:
        return CallerMask()

    def is_accepting(self) -> bool:
        return False

    def is_terminated(self) -> bool:
        return False


@dataclass
class _CachedRequest:
    """The state of a request after its last call."""

    vocab_size: int
    row: HistoryRow
    """Its `params` are as given: without a seed if that was chosen at random."""
    mask: CallerMask | None
    failed: bool = False


class RequestCache:
    """Requests by id, each in the scheduler of its vocabulary size."""

    def __init__(self, backend: str | Backend, num_threads: int | None) -> None:
        self._backend = backend
        self._num_threads = num_threads
        self._schedulers: dict[int, Scheduler] = {}
        self._requests: dict[int, _CachedRequest] = {}

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._requests

    def row(self, request_id: int, vocab_size: int, params: SamplingParams | None) -> HistoryRow:
        """A request's cached row; `params` replace its settings, except for a seed that was given to it.

        Raises InconsistencyError if its vocabulary has another size.
        """
        cached = self._requests[request_id]
        if cached.vocab_size != vocab_size:
            raise InconsistencyError(
                f"the logits are {vocab_size} wide; request {request_id} began with {cached.vocab_size}"
            )
        seed = cached.row.params.seed
        if params is not None and seed not in (None, params.seed):
            params = with_seed(params, seed)
        return cached.row if params in (None, cached.row.params) else replace(cached.row, params=params)

    def begin(self, request_id: int, vocab_size: int, row: HistoryRow, masked: bool) -> None:
        """Cache a new request; an earlier one with this id is forgotten."""
        scheduler = self._scheduler(vocab_size)
        self.forget([request_id])
        mask = CallerMask() if masked else None
        scheduler.add(
            row.params,
            row.prompt,
            request_id=request_id,
            output_token_ids=row.output,
            grammar=mask,
            position=row.position,
        )
        self._requests[request_id] = _CachedRequest(vocab_size, row, mask)

    def follow(self, request_id: int, row: HistoryRow, masked: bool) -> None:
        """Update a cached request to `row`, at a cost proportional to the difference."""
        cached = self._requests[request_id]
        previous = cached.row
        scheduler = self._schedulers[cached.vocab_size]
        same_start = row is previous or (row.params == previous.params and row.prompt == previous.prompt)
        if not same_start or cached.failed or masked != (cached.mask is not None):
            seed = scheduler.record(request_id).seed
            seeded = with_seed(row.params, seed) if row.params.seed is None else row.params
            self.begin(request_id, cached.vocab_size, replace(row, params=seeded), masked)
        elif row is not previous:
            common = _common_length(row.output, previous.output)
            scheduler.rollback(request_id, len(previous.output) - common)
            scheduler.accept(request_id, row.output[common:])
        self._requests[request_id].row = row

    def step(self, logits: LogitRows, request_ids: Sequence[int], bitmask: np.ndarray | None) -> StepResult:
        """Draw a token for each of the requests; `logits` has one row for each."""
        for i, request_id in enumerate(request_ids):
            if (mask := self._requests[request_id].mask) is not None and bitmask is not None:
                mask.words = bitmask[i]
        result = self._schedulers[logits.width].step(logits, request_ids)
        for request_id, token, error in zip(
            request_ids, result.token_ids.tolist(), result.errors, strict=True
        ):
            cached = self._requests[request_id]
            cached.failed = error is not None
            if not cached.failed:
                row = cached.row
                cached.row = HistoryRow(row.params, row.prompt, [*row.output, token], row.position + 1)
        return result

    def forget(self, request_ids: Iterable[int]) -> None:
        """Remove requests; unknown ids are ignored."""
        for request_id in request_ids:
            cached = self._requests.pop(request_id, None)
            if cached is not None:
                self._schedulers[cached.vocab_size].remove(request_id)

    def _scheduler(self, vocab_size: int) -> Scheduler:
        if vocab_size not in self._schedulers:
            self._schedulers[vocab_size] = Scheduler(
                vocab_size, backend=self._backend, num_threads=self._num_threads
            )
        return self._schedulers[vocab_size]


def _common_length(one: list[Any], other: list[Any]) -> int:
    """The length of the common prefix of two lists."""
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return min(len(one), len(other))
