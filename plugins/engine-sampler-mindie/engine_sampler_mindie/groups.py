"""`sample` for `SamplingMetadata`: groups of sequences, their siblings and beams."""

from __future__ import annotations

import operator
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine_sampler import SamplingParams
from engine_sampler.arithmetic import LogitRows
from engine_sampler.contract import Backend

from .batches import JoinedBatch, join_requests
from .beams import search_beams
from .cache import RequestCache
from .fields import check_lengths
from .growing import GrowingIds, Lengths, PromptLengths, read_up_to
from .histories import GivenTokens, Padding, TokenRows
from .metadata import Expansion, SamplingMetadata, sibling_seed
from .output import SamplingOutput, in_order
from .settings import default_settings, group_settings, has_penalty, with_seed

_CHANGING = {
    "all_token_ids", "output_token_ids", "known_lengths", "output_lengths", "cumulative_logprobs",
    "guided_bitmask", "random_number_generators", "to_tensor", "parent_sequence_ids",
}  # fmt: skip
"""The fields of metadata that a step may change, or that have no effect."""

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
        self._prompts = PromptLengths()
        self._steady: _SteadyBatch | None = None
        """The batch of the last call, if the next one may repeat it."""

    def draw(
        self, logits: LogitRows, metadata: SamplingMetadata, padding: Padding, eos_token_ids: Sequence[int]
    ) -> tuple[SamplingOutput, list[str | None]]:
        """The output, and why rows of it have no token; for a beam search, why rows of `logits` have none."""
        check_lengths(len(logits), {"all_sequence_ids": metadata.all_sequence_ids}, "logits")
        self._prompts.note(metadata)
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
        self._prompts.note(metadata)
        expansion = metadata.expansion()
        settings = self._settings(metadata, [None] * len(metadata.all_sequence_ids))
        return dict(zip(expansion.sequence_ids, _seeded(settings, metadata, expansion), strict=True))

    def forget(self, sequence_ids: Sequence[int]) -> None:
        """Forget the sequences, which have ended."""
        self._prompts.forget(sequence_ids)
        self.look_again()

    def look_again(self) -> None:
        """Look up the requests of the next call: others have changed the cache."""
        self._steady = None

    def _draw_sequences(
        self, logits: LogitRows, metadata: SamplingMetadata, padding: Padding
    ) -> tuple[SamplingOutput, list[str | None]]:
        lengths, bitmask = self._prompts.lengths(metadata), metadata.mask(logits.width)
        steady, self._steady = self._steady, None
        if steady is None or bitmask is not None or not steady.goes_on(metadata, padding, lengths):
            steady = self._joined(metadata, padding, lengths, bitmask is not None)
        expansion, batch = steady.expansion, steady.batch
        sources = expansion.sources
        rows = logits if len(sources) == len(logits) else logits.take(sources.tolist())
        result = self._cache.step(rows, batch.ids, None if bitmask is None else bitmask[sources])
        if bitmask is None and batch.lasts(result) and not metadata.prefill_array.any():
            self._steady = steady
        return SamplingOutput.of(metadata, expansion, result), result.errors

    def _joined(
        self, metadata: SamplingMetadata, padding: Padding, lengths: Lengths, masked: bool
    ) -> _SteadyBatch:
        """The batch of a call whose requests are brought up to its data."""
        all_ids = read_up_to(padding, "all_token_ids", metadata.all_token_ids, lengths[0])
        output = read_up_to(padding, "output_token_ids", metadata.output_token_ids, lengths[1])
        histories = self._given(metadata, all_ids, output)
        settings = self._settings(metadata, self._continued(metadata, histories, padding.vocab_size))
        expansion = metadata.expansion()
        ids, drawn = expansion.sequence_ids, _seeded(settings, metadata, expansion)
        requests = join_requests(
            self._cache,
            ids,
            [histories[i] for i in expansion.sources.tolist()],
            drawn,
            default_settings(self._mode, self._logprobs),
            padding,
            masked=masked,
            keep_seeds=True,
            count_prompts=self._count_prompts,
        )
        for sequence_id in ids:
            self._ahead.pop(sequence_id, None)
        growing = GrowingIds((all_ids, output), padding)
        batch = JoinedBatch(ids, b"", padding.vocab_size, drawn, requests, growing)
        return _SteadyBatch(metadata, _fixed_fields(metadata), padding, expansion, batch)

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
        lengths = self._prompts.lengths(metadata)
        given = self._given(
            metadata,
            read_up_to(padding, "all_token_ids", metadata.all_token_ids, lengths[0]),
            read_up_to(padding, "output_token_ids", metadata.output_token_ids, lengths[1]),
        )
        histories = [tokens.uncached(params) for tokens, params in zip(given, settings, strict=True)]
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

    def _given(
        self, metadata: SamplingMetadata, all_ids: TokenRows | None, output: TokenRows | None
    ) -> list[GivenTokens]:
        """The tokens of each row, as far as the metadata tells them."""
        given = given_tokens(all_ids, output, metadata.prefill_array.tolist())
        for tokens, sequence_id in zip(given, metadata.all_sequence_ids.tolist(), strict=True):
            ahead = self._ahead.get(sequence_id)
            if ahead is not None and not (tokens.is_prefill or tokens.has_any or has_penalty(ahead)):
                tokens.output = _UNKNOWN_TOKEN
        return given


@dataclass(frozen=True, eq=False)
class _SteadyBatch:
    """The batch of a call, and the metadata that it was made from.

    fixed  those fields of the metadata that decide more than the tokens of its rows.
    """

    metadata: SamplingMetadata
    fixed: list[Any]
    padding: Padding
    expansion: Expansion
    batch: JoinedBatch

    def goes_on(self, metadata: SamplingMetadata, padding: Padding, lengths: Lengths) -> bool:
        """Whether a call leaves everything as the last draw left it."""
        if metadata is not self.metadata or padding != self.padding:
            return False
        if not all(map(operator.is_, _fixed_fields(metadata), self.fixed)):
            return False
        ids, batch = (metadata.all_token_ids, metadata.output_token_ids), self.batch
        return batch.goes_on(b"", padding.vocab_size, batch.settings, ids, by_id=True, lengths=lengths)


def _fixed_fields(metadata: SamplingMetadata) -> list[Any]:
    """The fields of `metadata` that decide more than the tokens of its rows; one that may change as it is
    stands for nothing."""
    return [
        object() if isinstance(value, np.ndarray) and value.flags.writeable else value
        for name, value in vars(metadata).items()
        if name not in _CHANGING
    ]


def given_tokens(
    all_ids: TokenRows | None, output: TokenRows | None, prefill: Sequence[bool]
) -> list[GivenTokens]:
    """What a call says about the tokens of each row."""
    return [
        GivenTokens(
            row,
            None if all_ids is None else all_ids.tokens(row),
            None if output is None else output.tokens(row),
            bool(first),
        )
        for row, first in enumerate(prefill)
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
