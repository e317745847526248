"""The requests of SGLang's batches, row by row, through merges and filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine_sampler.for_bridges import EngineRequest

from .settings import params_or_sglangs

_ROWS = "engine_sampler_rows"
"""The attribute of a `SamplingBatchInfo` that holds its rows."""


class FollowedRow(EngineRequest):
    """A request in the batches of one stay: from a prefill on, until it ends or is retracted.

    output  its tokens, those that SGLang has not seen yet included.
    is_new  whether nothing has been drawn for it in this stay.
    """

    def __init__(self, request: Any) -> None:
        super().__init__(None, request.origin_input_ids, list(request.output_ids))
        self.is_new = True
        self._request = request

    def catch_up(self, seed: int) -> None:
        """Follow SGLang's own output, whose last token may still be on its way with the overlap schedule.
        Without a seed of its own, a request has one that follows from `seed` and its id."""
        if self.params is None:
            self.params = params_or_sglangs(self._request.sampling_params, seed, self._request.rid)
        own, known = self._request.output_ids, self.output
        behind = len(known) - len(own)
        if behind not in (0, 1) or (len(own) and own[-1] != known[len(own) - 1]):
            self.output = list(own)

    def add(self, token_id: int) -> None:
        """A token has been drawn."""
        self.output.append(token_id)
        self.is_new = False


def rows_of(info: Any, count: int) -> list[FollowedRow] | None:
    """The rows of a batch; None if there are not `count` of them, as in batches without requests."""
    rows: list[FollowedRow] | None = getattr(info, _ROWS, None)
    return rows if rows is not None and len(rows) == count else None


def _begin(_: Any, info: Any, batch: Any, vocab_size: int) -> None:
    setattr(info, _ROWS, [FollowedRow(request) for request in batch.reqs])


def _merge(_: Any, info: Any, other: Any) -> None:
    ours, others = getattr(info, _ROWS, None), getattr(other, _ROWS, None)
    setattr(info, _ROWS, None if ours is None or others is None else [*ours, *others])


def _keep(_: Any, info: Any, keep_indices: Sequence[int], keep_indices_device: Any) -> None:
    rows = getattr(info, _ROWS, None)
    setattr(info, _ROWS, None if rows is None else [rows[i] for i in keep_indices])


def _copy(copied: Any, info: Any) -> None:
    setattr(copied, _ROWS, getattr(info, _ROWS, None))


FOLLOWING = {
    "adjusted_from_schedule_batch": _begin,
    "adjusted_merge_batch": _merge,
    "adjusted_filter_batch": _keep,
    "copy_for_forward": _copy,
}
"""What happens after these methods of `SamplingBatchInfo`."""
