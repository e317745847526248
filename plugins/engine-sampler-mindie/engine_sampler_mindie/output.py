"""`SamplingOutput`: the results of a `SamplingMetadata` batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine_sampler import Logprobs, StepResult
from engine_sampler.for_bridges import like, to_numpy

from .fields import spans_of
from .metadata import Expansion, SamplingMetadata

NO_LOGPROB = -9999.0
"""The value in place of a missing logprob."""


@dataclass(eq=False)
class SamplingOutput:
    """The results of a `SamplingMetadata` batch: arrays with one entry per row, siblings and beams included.

    NumPy arrays; with `return_tensors` of `Sampler`, token ids and logprobs are of the logits' library, on
    its device.

    sequence_ids         int64, the sequences of the tokens; −1 for a text that its token ends in a beam
                         search. None without metadata.
    parent_sequence_ids  int64, the sequences whose caches they continue. None without metadata.
    group_indices        (start, end) for each group.
    repeating_indices    int64, the row of the logits that each row uses.
    token_ids            int64, −1 for a faulty row.
    logprobs             float32: for a sampled token the natural logarithm after all processing; for a
                         greedy one after penalties, if top_logprobs are requested, and for that of a beam;
                         otherwise −9999.
    top_token_ids        int64 [rows, k], the likeliest first, k the greatest requested number; −1 for none.
    top_logprobs         float32 [rows, k], −9999 for none.
    cumulative_logprobs  float32, the given sums plus `logprobs`, where they exist. In a beam search this sum
                         divided by the text's length, by which its rows are ordered.
    num_new_tokens       int64, 1, or 0 for a faulty row.
    num_new_tokens_numpy  accepted for MindIE's callers; None.
    num_top_tokens       int64, the number that each row requested.
    seeds                uint64, the seeds of the draws, 0 in a beam search; those of siblings are below 2^63.
    is_structured_accepted  bool, whether a token allowed by `guided_bitmask` was found; None without one.
    """

    sequence_ids: Any
    parent_sequence_ids: Any
    group_indices: list[tuple[int, int]]
    repeating_indices: np.ndarray
    token_ids: Any
    logprobs: Any
    top_token_ids: Any
    top_logprobs: Any
    cumulative_logprobs: Any
    num_new_tokens: Any
    num_new_tokens_numpy: Any = None
    num_top_tokens: Any = None
    seeds: Any = None
    is_structured_accepted: np.ndarray | None = None

    @classmethod
    def of(cls, metadata: SamplingMetadata, expansion: Expansion, result: StepResult) -> SamplingOutput:
        """The output of a step with the rows of `expansion`."""
        sources, tokens = expansion.sources, result.token_ids
        ids, values = listed(result.logprobs, metadata.top_logprobs_array[sources])
        logprobs = values[:, 0].copy()
        increments = np.where(logprobs == NO_LOGPROB, np.float32(0), logprobs)
        return cls(
            np.array(expansion.sequence_ids, np.int64),
            metadata.all_sequence_ids[sources],
            expansion.groups,
            sources,
            tokens,
            logprobs,
            ids[:, 1:].copy(),
            values[:, 1:].copy(),
            metadata.cumulative_logprobs[sources] + increments,
            (tokens >= 0).astype(np.int64),
            num_top_tokens=metadata.num_top_tokens[sources],
            seeds=np.array(result.seeds, np.uint64),
            is_structured_accepted=None if metadata.guided_bitmask is None else tokens >= 0,
        )

    @classmethod
    def without_metadata(cls, token_ids: np.ndarray) -> SamplingOutput:
        """The output for rows that belong to no sequences: greedy `token_ids` int64 [rows]."""
        rows = len(token_ids)
        none = np.full(rows, NO_LOGPROB, np.float32)
        return cls(
            None,
            None,
            [(row, row + 1) for row in range(rows)],
            np.arange(rows),
            token_ids,
            none,
            np.zeros((rows, 0), np.int64),
            np.zeros((rows, 0), np.float32),
            np.zeros(rows, np.float32),
            (token_ids >= 0).astype(np.int64),
        )

    def moved_to(self, logits: Any) -> SamplingOutput:
        """The same with token ids and logprobs as arrays of the library of `logits`, on its device."""
        ids, values = ("token_ids", "top_token_ids"), ("logprobs", "top_logprobs", "cumulative_logprobs")
        moved = {name: like(logits, getattr(self, name), "int64") for name in ids}
        moved |= {name: like(logits, getattr(self, name), "float32") for name in values}
        return replace(self, **moved)

    def to_deprecated(self) -> tuple[Any, Any]:
        """(token_ids, logprobs)."""
        return self.token_ids, self.logprobs

    def truncate_after_eos(self, eos_token_id: int) -> None:
        """Set what follows the first `eos_token_id` among the new tokens of each row to 0, and count it no
        longer in `num_new_tokens`.

        `token_ids` are those of several tokens per row, int [rows, tokens], as MindIE's callers have them
        after speculative steps; [rows] has nothing to truncate.
        """
        rows = to_numpy(self.token_ids)
        if rows.ndim != 2:
            return
        for row, (token_ids, count) in enumerate(zip(rows, self.num_new_tokens, strict=True)):
            ends = np.flatnonzero(token_ids[: int(count)] == eos_token_id)
            if len(ends):
                kept = int(ends[0]) + 1
                self.token_ids[row, kept:] = 0
                self.num_new_tokens[row] = kept


_JOINED = (
    "sequence_ids", "parent_sequence_ids", "repeating_indices", "token_ids", "logprobs",
    "cumulative_logprobs", "num_new_tokens", "num_top_tokens", "seeds",
)  # fmt: skip
"""The arrays of an output that are those of its parts, end to end."""


def in_order(parts: Sequence[SamplingOutput], groups: Sequence[Sequence[int]]) -> SamplingOutput:
    """One output of `parts`, each with the outputs of the numbered `groups`; in the order of the groups.

    `repeating_indices` must already be those of the whole batch.
    """
    width = max(part.top_token_ids.shape[1] for part in parts)
    spans = {}
    for part, numbers in zip(parts, groups, strict=True):
        for number, (start, end) in zip(numbers, part.group_indices, strict=True):
            spans[number] = part, slice(start, end)
    ordered = [spans[number] for number in sorted(spans)]

    def joined(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name)[span] for part, span in ordered])

    def table(name: str, missing: float) -> np.ndarray:
        return np.concatenate([_widened(getattr(part, name)[span], width, missing) for part, span in ordered])

    accepted = all(part.is_structured_accepted is not None for part in parts)
    names = (*_JOINED, "is_structured_accepted") if accepted else _JOINED
    return SamplingOutput(
        group_indices=spans_of(span.stop - span.start for _, span in ordered),
        top_token_ids=table("top_token_ids", -1),
        top_logprobs=table("top_logprobs", NO_LOGPROB),
        **{name: joined(name) for name in names},
    )


def listed(logprobs: Any, requested: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Token ids int64 and logprobs float32 [rows, 1 + k]: the chosen token, then the `requested` int [rows]
    likeliest of each row, k the greatest of these numbers; −1 and −9999 for none.
    """
    ids = np.full((len(requested), 1 + int(requested.max())), -1, np.int64)
    values = np.full(ids.shape, NO_LOGPROB, np.float32)
    if isinstance(logprobs, Logprobs):
        width = min(logprobs.token_ids.shape[1], ids.shape[1])
        found = np.isfinite(logprobs.logprobs[:, :width])
        ids[:, :width][found] = logprobs.token_ids[:, :width][found]
        values[:, :width][found] = logprobs.logprobs[:, :width][found]
    beyond = np.arange(ids.shape[1]) > requested[:, None]
    ids[beyond], values[beyond] = -1, NO_LOGPROB
    return ids, values


def _widened(table: np.ndarray, width: int, missing: float) -> np.ndarray:
    return np.pad(table, ((0, 0), (0, width - table.shape[1])), constant_values=missing)
