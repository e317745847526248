"""`sample` for `SamplingMetadata`: groups of sequences, their siblings and beams."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np

from ...arithmetic import LogitRows
from ...contract import Backend
from ...params import SamplingParams
from .batches import join_requests
from .beams import search_beams
from .cache import RequestCache
from .fields import check_lengths
from .histories import GivenTokens, Padding
from .metadata import Expansion, SamplingMetadata, sibling_seed
from .output import SamplingOutput, in_order
from .settings import default_settings, group_settings, has_penalty, with_seed

_MOST_LENGTHS = 16_384
"""Of how many sequences the lengths of their prompts are remembered."""

_UNKNOWN_TOKEN = np.zeros(1, np.int64)
"""The output of a sequence that has been configured ahead and whose tokens are not given: one token, which
matters to nothing but the position."""


class Groups:
    """Draws for groups of sequences, which are cached in `cache`.

    ahead  settings by sequence, of those that go on from another sampler's prefill; shared with the owner.
    """

    def __init__(
        self,
        cache: RequestCache,
        mode: str,
        logprobs: bool,
        backend: str | Backend,
        ahead: dict[int, SamplingParams],
        count_prompts: bool,
    ) -> None:
        self._cache, self._mode, self._logprobs, self._backend = cache, mode, logprobs, backend
        self._ahead, self._count_prompts = ahead, count_prompts
        self._prompt_lengths: dict[int, int] = {}

    def draw(
        self, logits: LogitRows, metadata: SamplingMetadata, padding: Padding, eos_token_ids: Sequence[int]
    ) -> tuple[SamplingOutput, list[str | None]]:
        """The output, and why rows of it have no token; for a beam search, why rows of `logits` have none."""
        check_lengths(len(logits), {"all_sequence_ids": metadata.all_sequence_ids}, "logits")
        self._note_prompts(metadata)
        beams = metadata.beam_groups()
        if not beams:
            return self._draw_sequences(logits, metadata, padding)
        if len(beams) == len(metadata.group_indices):
            return self._search(logits, metadata, padding, eos_token_ids)
        others = [number for number in range(len(metadata.group_indices)) if number not in set(beams)]
        parts, errors = [], []
        for numbers in (beams, others):
            part, rows = metadata.part(numbers)
            some = logits.take(rows.tolist())
            if numbers is beams:
                output, reasons = self._search(some, part, padding, eos_token_ids)
            else:
                output, reasons = self._draw_sequences(some, part, padding)
            output.repeating_indices = rows[output.repeating_indices]
            parts.append(output)
            errors += reasons
        return in_order(parts, (beams, others)), errors

    def configure(self, metadata: SamplingMetadata) -> dict[int, SamplingParams]:
        """The settings of the sequences of `metadata`, siblings included, as of their first token."""
        self._note_prompts(metadata)
        expansion = metadata.expansion()
        settings = self._settings(metadata, [None] * len(metadata.all_sequence_ids))
        return dict(zip(expansion.sequence_ids, _seeded(settings, metadata, expansion), strict=True))

    def forget(self, sequence_ids: Sequence[int]) -> None:
        """Forget the sequences, which have ended."""
        for sequence_id in sequence_ids:
            self._prompt_lengths.pop(sequence_id, None)

    def _draw_sequences(
        self, logits: LogitRows, metadata: SamplingMetadata, padding: Padding
    ) -> tuple[SamplingOutput, list[str | None]]:
        histories = self._histories(metadata, padding)
        settings = self._settings(metadata, self._continued(metadata, histories, padding.vocab_size))
        bitmask = metadata.mask(logits.width)
        expansion = metadata.expansion()
        if bitmask is not None:
            bitmask = bitmask[expansion.sources]
        join_requests(
            self._cache,
            expansion.sequence_ids,
            [histories[i] for i in expansion.sources.tolist()],
            _seeded(settings, metadata, expansion),
            default_settings(self._mode, self._logprobs),
            padding,
            masked=bitmask is not None,
            keep_seeds=True,
            count_prompts=self._count_prompts,
        )
        for sequence_id in expansion.sequence_ids:
            self._ahead.pop(sequence_id, None)
        rows = logits if len(expansion.sources) == len(logits) else logits.take(expansion.sources.tolist())
        result = self._cache.step(rows, expansion.sequence_ids, bitmask)
        return SamplingOutput.of(metadata, expansion, result), result.errors

    def _search(
        self, logits: LogitRows, metadata: SamplingMetadata, padding: Padding, eos_token_ids: Sequence[int]
    ) -> tuple[SamplingOutput, list[str | None]]:
        settings = group_settings(
            metadata.columns() | {"do_sample": np.zeros(len(logits), np.bool_)},
            self._mode,
            False,
            metadata.top_logprobs_array,
            np.zeros(len(logits), np.bool_),
            [None] * len(logits),
        )
        histories = [
            tokens.uncached(params)
            for tokens, params in zip(self._histories(metadata, padding), settings, strict=True)
        ]
        mask = metadata.mask(logits.width)
        return search_beams(logits, metadata, histories, mask, eos_token_ids, self._backend)

    def _settings(
        self, metadata: SamplingMetadata, continued: Sequence[SamplingParams | None]
    ) -> list[SamplingParams]:
        """The settings of each row; a sequence that was configured ahead has the seed of then."""
        settings = group_settings(
            metadata.columns(),
            self._mode,
            self._logprobs,
            metadata.top_logprobs_array,
            metadata.has_siblings,
            continued,
        )
        if self._ahead:
            for row, sequence_id in enumerate(metadata.all_sequence_ids.tolist()):
                ahead = self._ahead.get(sequence_id)
                if ahead is not None and ahead.seed is not None and ahead is continued[row]:
                    settings[row] = with_seed(settings[row], ahead.seed)
        return settings

    def _continued(
        self, metadata: SamplingMetadata, histories: Sequence[GivenTokens], vocab_size: int
    ) -> list[SamplingParams | None]:
        """The settings of the request that each row continues; None for rows that begin."""
        rows = []
        for request_id, tokens in zip(metadata.all_sequence_ids.tolist(), histories, strict=True):
            cached = self._cache.find(request_id, vocab_size)
            goes_on = cached is not None and (not tokens.is_prefill or tokens.resumes(cached.row))
            ahead = None if tokens.is_prefill or cached is not None else self._ahead.get(request_id)
            rows.append(cached.params if cached is not None and goes_on else ahead)
        return rows

    def _note_prompts(self, metadata: SamplingMetadata) -> None:
        """Remember the lengths of the prompts for sequences that begin, those of their siblings and beams
        included."""
        lengths = metadata.prompt_lengths
        if lengths is None:
            return
        begins = metadata.prefill_array
        for (start, _), group, reserved in zip(
            metadata.group_indices, metadata.batch_sequence_ids, metadata.reserved_sequence_ids, strict=True
        ):
            if begins[start]:
                ids = (*group.tolist(), *reserved.tolist())
                self._prompt_lengths.update(dict.fromkeys(ids, int(lengths[start])))
        while len(self._prompt_lengths) > max(_MOST_LENGTHS, len(lengths)):
            del self._prompt_lengths[next(iter(self._prompt_lengths))]

    def _histories(self, metadata: SamplingMetadata, padding: Padding) -> list[GivenTokens]:
        """What the metadata says of the tokens of each row, up to the lengths that are known."""
        all_ids, output = metadata.all_token_ids, metadata.output_token_ids
        rows, prefill = len(metadata.all_sequence_ids), metadata.prefill_array
        lengths = metadata.known_lengths
        if self._prompt_lengths and all_ids is not None:
            added = np.zeros(rows, np.int64) if lengths is None else lengths
            known = [self._prompt_lengths.get(i, -1) for i in metadata.all_sequence_ids.tolist()]
            totals = np.where((prefill | (lengths is not None)) & (np.array(known) >= 0), known + added, -1)
            all_ids = _cut(all_ids, totals, padding)
        if lengths is not None and output is not None:
            output = _cut(output, lengths, padding)
        given = given_tokens(padding, all_ids, output, prefill.tolist())
        for tokens, sequence_id in zip(given, metadata.all_sequence_ids.tolist(), strict=True):
            ahead = self._ahead.get(sequence_id)
            if ahead is not None and not (tokens.is_prefill or tokens.has_any or has_penalty(ahead)):
                tokens.output = _UNKNOWN_TOKEN
        return given


def given_tokens(
    padding: Padding, all_ids: np.ndarray | None, output: np.ndarray | None, prefill: Sequence[bool]
) -> list[GivenTokens]:
    """What a call says about the tokens of each row."""
    rows = len(prefill)
    return [
        GivenTokens(row, all_row, output_row, bool(first))
        for row, (all_row, output_row, first) in enumerate(
            zip(
                padding.rows("all_input_ids", all_ids, rows),
                padding.rows("output_ids", output, rows),
                prefill,
                strict=True,
            )
        )
    ]


def _seeded(
    settings: Sequence[SamplingParams], metadata: SamplingMetadata, expansion: Expansion
) -> list[SamplingParams]:
    """The settings of each row of `expansion`, its siblings with seeds of their own."""
    parents = [
        with_seed(params, secrets.randbits(63)) if count > 1 and params.seed is None else params
        for params, count in zip(settings, metadata.siblings.tolist(), strict=True)
    ]
    rows = [
        (parents[i], number) for i, number in zip(expansion.sources.tolist(), expansion.siblings, strict=True)
    ]
    return [
        with_seed(params, sibling_seed(params.seed, number)) if number else params for params, number in rows
    ]


def _cut(ids: np.ndarray, lengths: np.ndarray, padding: Padding) -> np.ndarray:
    """`ids` [rows, length], padded beyond the `lengths` [rows]; −1 leaves a row as it is."""
    lengths = np.where(lengths < 0, ids.shape[1], lengths)
    if (lengths >= ids.shape[1]).all():
        return ids
    return np.where(np.arange(ids.shape[1]) < lengths[:, None], ids, padding.vocab_size)
