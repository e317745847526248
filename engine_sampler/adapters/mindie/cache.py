"""The requests that are remembered from call to call: counts, seeds and positions, in schedulers."""

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
from .histories import Row
from .settings import with_seed


class GivenMask:
    """A grammar's stand-in for a scheduler: the tokens that the caller allows for the next token."""

    def __init__(self) -> None:
        self.words = np.zeros(0, np.int32)
        """int32 [ceil(vocab / 32)], bit 1 = allowed; set before every step."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        bitmask[row] = self.words

    def accept(self, token_id: int) -> bool:
        return True

    def rollback(self, n: int) -> None:
        """The mask is the caller's, who sets it anew."""

    def fork(self) -> GivenMask:
        return GivenMask()

    def is_accepting(self) -> bool:
        return False

    def is_terminated(self) -> bool:
        return False


@dataclass
class _Kept:
    """A request as it stands after its last call."""

    vocab_size: int
    row: Row
    """Its settings as they were given: without a seed where that was chosen at random."""
    mask: GivenMask | None
    failed: bool = False


class RequestCache:
    """Requests by id, each in the scheduler of its vocabulary."""

    def __init__(self, backend: str | Backend, num_threads: int | None) -> None:
        self._backend = backend
        self._num_threads = num_threads
        self._schedulers: dict[int, Scheduler] = {}
        self._kept: dict[int, _Kept] = {}

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._kept

    def row(self, request_id: int, vocab_size: int, params: SamplingParams | None) -> Row:
        """What is remembered of a request; `params` replace its settings, but not a seed that it was given.

        Raises InconsistencyError where it has another vocabulary.
        """
        kept = self._kept[request_id]
        if kept.vocab_size != vocab_size:
            raise InconsistencyError(
                f"the logits are {vocab_size} wide; request {request_id} began with {kept.vocab_size}"
            )
        seed = kept.row.params.seed
        if params is not None and seed not in (None, params.seed):
            params = with_seed(params, seed)
        return kept.row if params in (None, kept.row.params) else replace(kept.row, params=params)

    def begin(self, request_id: int, vocab_size: int, row: Row, masked: bool) -> None:
        """Remember a request from now on, and nothing of an earlier one under this id."""
        scheduler = self._scheduler(vocab_size)
        self.forget([request_id])
        mask = GivenMask() if masked else None
        scheduler.add(
            row.params,
            row.prompt,
            request_id=request_id,
            output_token_ids=row.output,
            grammar=mask,
            position=row.position,
        )
        self._kept[request_id] = _Kept(vocab_size, row, mask)

    def follow(self, request_id: int, row: Row, masked: bool) -> None:
        """Bring a remembered request to what `row` says, at the cost of what differs."""
        kept = self._kept[request_id]
        had = kept.row
        scheduler = self._schedulers[kept.vocab_size]
        same = row is had or (row.params == had.params and row.prompt == had.prompt)
        if not same or kept.failed or masked != (kept.mask is not None):
            seed = scheduler.record(request_id).seed
            seeded = with_seed(row.params, seed) if row.params.seed is None else row.params
            self.begin(request_id, kept.vocab_size, replace(row, params=seeded), masked)
        elif row is not had:
            shared = _shared(row.output, had.output)
            scheduler.rollback(request_id, len(had.output) - shared)
            scheduler.accept(request_id, row.output[shared:])
        self._kept[request_id].row = row

    def step(self, logits: LogitRows, request_ids: Sequence[int], bitmask: np.ndarray | None) -> StepResult:
        """Draw a token for each of the requests, whose rows these are."""
        for i, request_id in enumerate(request_ids):
            if (mask := self._kept[request_id].mask) is not None and bitmask is not None:
                mask.words = bitmask[i]
        result = self._schedulers[logits.width].step(logits, request_ids)
        for request_id, token, error in zip(
            request_ids, result.token_ids.tolist(), result.errors, strict=True
        ):
            kept = self._kept[request_id]
            kept.failed = error is not None
            if not kept.failed:
                row = kept.row
                kept.row = Row(row.params, row.prompt, [*row.output, token], row.position + 1)
        return result

    def forget(self, request_ids: Iterable[int]) -> None:
        """Remove requests; an unknown id is no error."""
        for request_id in request_ids:
            kept = self._kept.pop(request_id, None)
            if kept is not None:
                self._schedulers[kept.vocab_size].remove(request_id)

    def _scheduler(self, vocab_size: int) -> Scheduler:
        if vocab_size not in self._schedulers:
            self._schedulers[vocab_size] = Scheduler(
                vocab_size, backend=self._backend, num_threads=self._num_threads
            )
        return self._schedulers[vocab_size]


def _shared(one: list[Any], other: list[Any]) -> int:
    """How many entries two lists begin with alike."""
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return min(len(one), len(other))
