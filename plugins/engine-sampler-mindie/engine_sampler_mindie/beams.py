"""Beam search as MindIE's generator has it: the caller keeps the texts and their sums, a call chooses."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engine_sampler import RequestLimits, Sampled, SamplingParams, sample
from engine_sampler.arithmetic import LogitRows
from engine_sampler.contract import Backend

from .fields import spans_of
from .histories import HistoryRow
from .metadata import SamplingMetadata
from .output import NO_LOGPROB, SamplingOutput, listed


class Extension(NamedTuple):
    """A text of a group extended by one token.

    score        the sum of its logprobs over its length, this token included.
    row          the row of the text that it extends.
    sequence_id  the sequence that goes on with it; −1 if the token ends the text.
    """

    score: float
    row: int
    token_id: int
    logprob: float
    sequence_id: int = -1


def search_beams(
    logits: LogitRows,
    metadata: SamplingMetadata,
    histories: Sequence[HistoryRow],
    mask: np.ndarray | None,
    eos_token_ids: Sequence[int],
    backend: str | Backend,
) -> tuple[SamplingOutput, list[str | None]]:
    """The next texts of a batch of beam searches, and why rows of `logits` have none.

    Considered are the (eos + 1) · n likeliest tokens of each text, after penalties and the `mask`, where eos
    is the number of tokens that end a text. Of a group's extensions, all that end go first, then the n best
    others, each in the order of their scores; ties go to the earlier text, then the lower token id. The best
    child of a text keeps its sequence, further children take over those of texts without a child, and at
    the beginning the reserved ones. A group without any extension keeps its texts, without a token.
    """
    wanted = np.minimum((len(eos_token_ids) + 1) * metadata.beam_width_array, logits.width)
    requested = np.maximum(wanted, metadata.top_logprobs_array)
    drawn = _likeliest(logits if mask is None else _masked(logits, mask), histories, requested, backend)
    ids, logprobs = listed(drawn.logprobs, requested)
    found = _Found(ids[:, 1:], logprobs[:, 1:], wanted, metadata)
    texts, sizes = [], []
    for number, (start, end) in enumerate(metadata.group_indices):
        over, going_on = found.in_group(start, end, eos_token_ids, int(metadata.beam_width_array[start]))
        kept = over + _with_sequences(going_on, _free(metadata, number))
        kept = kept or [
            Extension(NO_LOGPROB, row, -1, NO_LOGPROB, int(metadata.all_sequence_ids[row]))
            for row in range(start, end)
        ]
        texts += kept
        sizes.append(len(kept))
    rows = np.array([text.row for text in texts])
    top_ids, top_logprobs = listed(drawn.logprobs, metadata.top_logprobs_array)
    tokens = np.array([text.token_id for text in texts])
    output = SamplingOutput(
        sequence_ids=np.array([text.sequence_id for text in texts]),
        parent_sequence_ids=metadata.all_sequence_ids[rows],
        group_indices=spans_of(sizes),
        repeating_indices=rows,
        token_ids=tokens,
        logprobs=np.array([text.logprob for text in texts], np.float32),
        top_token_ids=top_ids[rows, 1:],
        top_logprobs=top_logprobs[rows, 1:],
        cumulative_logprobs=np.array([text.score for text in texts], np.float32),
        num_new_tokens=(tokens >= 0).astype(np.int64),
        num_top_tokens=metadata.num_top_tokens[rows],
        seeds=np.zeros(len(texts), np.uint64),
        is_structured_accepted=None if mask is None else tokens >= 0,
    )
    return output, drawn.errors


class _Found:
    """The likeliest tokens of each row: `token_ids` and `logprobs` [rows, k], of them `wanted` [rows]."""

    def __init__(
        self, token_ids: np.ndarray, logprobs: np.ndarray, wanted: np.ndarray, metadata: SamplingMetadata
    ) -> None:
        lengths = metadata.output_lengths
        self._ids, self._logprobs, self._sequences = token_ids, logprobs, metadata.all_sequence_ids
        sums = metadata.cumulative_logprobs[:, None].astype(np.float64) + logprobs
        self._scores = sums / (1 if lengths is None else lengths[:, None] + 1)
        self._counts = (token_ids >= 0) & (np.arange(token_ids.shape[1]) < wanted[:, None])

    def in_group(
        self, start: int, end: int, eos_token_ids: Sequence[int], width: int
    ) -> tuple[list[Extension], list[Extension]]:
        """Of the extensions of rows start to end all that end, and the `width` best others."""
        ended = np.isin(self._ids[start:end], eos_token_ids)
        counts = self._counts[start:end]
        return (
            [self._extension(start, at, True) for at in self._best(start, counts & ended)],
            [self._extension(start, at, False) for at in self._best(start, counts & ~ended)[:width]],
        )

    def _best(self, start: int, mask: np.ndarray) -> list[int]:
        """The places of the extensions in `mask` [rows of the group, k], the best first."""
        places = np.flatnonzero(mask)
        scores = self._scores[start : start + len(mask)].ravel()[places]
        best: list[int] = places[np.argsort(-scores, kind="stable")].tolist()
        return best

    def _extension(self, start: int, place: int, over: bool) -> Extension:
        row, column = divmod(place, self._ids.shape[1])
        row += start
        return Extension(
            float(self._scores[row, column]),
            row,
            int(self._ids[row, column]),
            float(self._logprobs[row, column]),
            -1 if over else int(self._sequences[row]),
        )


def _free(metadata: SamplingMetadata, group: int) -> list[int]:
    """The sequences of a group that new texts may have, the first one first."""
    ids = metadata.batch_sequence_ids[group].tolist()
    return ids + [i for i in metadata.reserved_sequence_ids[group].tolist() if i not in ids]


def _with_sequences(texts: Sequence[Extension], sequence_ids: Sequence[int]) -> list[Extension]:
    """The `texts`, each with a sequence of its own: those for which one is left."""
    parents = {text.sequence_id for text in texts}
    free = iter([sequence_id for sequence_id in sequence_ids if sequence_id not in parents])
    kept = []
    for text in texts:
        first = text.sequence_id in parents
        parents.discard(text.sequence_id)
        sequence_id = text.sequence_id if first else next(free, None)
        if sequence_id is not None:
            kept.append(text._replace(sequence_id=sequence_id))
    return kept


def _likeliest(
    logits: LogitRows, histories: Sequence[HistoryRow], wanted: np.ndarray, backend: str | Backend
) -> Sampled:
    """The `wanted` int [rows] likeliest tokens of each row after its penalties."""
    return sample(
        logits,
        [_listing(row.params, count) for row, count in zip(histories, wanted.tolist(), strict=True)],
        prompt_token_ids=[row.prompt.tolist() for row in histories],
        output_token_ids=[row.output.tolist() for row in histories],
        positions=[0] * len(histories),
        backend=backend,
        limits=RequestLimits.none(),
    )


@functools.lru_cache(maxsize=256)
def _listing(params: SamplingParams, count: int) -> SamplingParams:
    """`params` of a greedy row that lists `count` tokens."""
    return params.replace(logprobs=count, seed=0)


def _masked(logits: LogitRows, mask: np.ndarray) -> LogitRows:
    """A copy of the rows with −inf for the tokens whose bit in `mask` int32 [rows, words] is 0."""
    wide = LogitRows(logits, logits.width)
    rows = np.stack([wide.row(i) for i in range(len(wide))])
    bits = np.unpackbits(mask.view(np.uint8), axis=1, count=logits.width, bitorder="little")
    rows[bits == 0] = -np.inf
    return LogitRows(rows, 1)
