"""The rows of a call, brought together with the requests that are cached for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from engine_sampler import SamplingParams, StepResult

from .cache import CachedRequest, RequestCache
from .fields import InconsistencyError
from .growing import GrowingIds, Ids, Lengths
from .histories import NOTHING, GivenTokens, HistoryRow, Padding
from .settings import is_greedy
from .values import Scores

_MOST_REPEATS = 4096
"""Draws of one batch before its requests are looked up again."""

_LONGEST_SURPLUS = 4096
"""Rows without request ids begin anew if they have so many more tokens than their call gives, so that their
histories do not grow on."""


@dataclass
class JoinedBatch:
    """The requests of a call, in row order: what stays the same while calls repeat them.

    ids       their keys in the cache.
    key       the bytes of the request ids; empty without ids.
    settings  the settings that the last call gave, None if calls have left them as they are.
    growing   the ids that the last call gave.
    draws     how often the batch has been drawn, in a row and without a fault.
    tokens    int64 [rows], the last ones.
    scores    what the tokens score, once that is known.
    """

    ids: list[int]
    key: bytes
    vocab_size: int
    settings: list[SamplingParams] | None
    requests: list[CachedRequest]
    growing: GrowingIds
    draws: int = 0
    tokens: np.ndarray = field(default_factory=lambda: NOTHING)
    scores: Scores | None = None

    def goes_on(
        self,
        key: bytes,
        vocab_size: int,
        settings: list[SamplingParams] | None,
        ids: Ids,
        by_id: bool,
        lengths: Lengths = (None, None),
    ) -> bool:
        """Whether a call leaves everything as the last draw left it.

        ids    the tokens that the call gives: none, or those of the last call and of its draw.
        by_id  whether the requests have ids, so that tokens may be given or omitted as the caller likes.
        lengths  how many tokens the rows of `ids` have, if the call tells it.
        """
        if not self.draws or not (settings is None or settings is self.settings):
            return False
        if (key, vocab_size) != (self.key, self.vocab_size):
            return False
        if not by_id and (settings is None or len(settings) != len(self.ids)):
            return False
        if any(array is not None for array in ids):
            return self.growing.grow(ids, self.tokens, self.requests, lengths)
        if by_id and any(self.growing.gives()):
            self.growing = GrowingIds((None, None), Padding(vocab_size, None))
        return not any(self.growing.gives())

    def lasts(self, result: StepResult) -> bool:
        """Note a draw; whether the next call may go on from it without looking up the requests."""
        self.draws += 1
        self.tokens = result.token_ids
        return self.draws < _MOST_REPEATS and result.errors.count(None) == len(result.errors)


def join_requests(
    cache: RequestCache,
    request_ids: Sequence[int],
    histories: Sequence[GivenTokens],
    settings: Sequence[SamplingParams | None],
    default: SamplingParams,
    padding: Padding,
    *,
    masked: bool,
    keep_seeds: bool,
    count_prompts: bool,
) -> list[CachedRequest]:
    """Update the requests of a batch to the data of the call, all or none.

    settings    for each its new settings, or None to keep the cached ones.
    default     the settings of a request that begins without any.
    keep_seeds  whether cached requests keep their seeds whatever the settings say.
    count_prompts  whether the prompt counts in the positions of requests that begin.
    """
    rows: list[tuple[int, bool, HistoryRow]] = []
    for request_id, tokens, params in zip(request_ids, histories, settings, strict=True):
        if request_id in cache:
            cached = None
            if not tokens.is_prefill or cache.find(request_id, padding.vocab_size) is not None:
                cached = cache.row(request_id, padding.vocab_size, params, keep_seeds)
            if cached is not None and (not tokens.is_prefill or tokens.resumes(cached)):
                row = tokens.following(cached, padding)
                if row is not cached or not cache.is_ready(request_id, row, masked):
                    rows.append((request_id, True, row))
                continue
        elif not tokens.is_prefill and cache.was_evicted(request_id):
            if params is None or not tokens.has_any:
                raise InconsistencyError(
                    f"request {request_id} was evicted from the cache, as the longest idle one "
                    "(`cache_bytes`, `idle_rounds` and 4096 requests bound it): give its settings and "
                    "tokens, or prefill it"
                )
        elif params is None and not tokens.is_prefill:
            raise InconsistencyError(
                f"request_ids has {request_id}, which is not cached: give sampling_param, or prefill it"
            )
        begin = tokens.new if tokens.is_prefill else tokens.uncached
        row = begin(params or default)
        rows.append((request_id, False, tokens.after_prompt(row) if count_prompts else row))
    for request_id, follows, row in rows:
        if follows:
            cache.follow(request_id, row, masked)
        else:
            cache.begin(request_id, padding.vocab_size, row, masked)
    return [cache.request(request_id) for request_id in request_ids]


def join_rows(
    cache: RequestCache,
    histories: Sequence[GivenTokens],
    settings: Sequence[SamplingParams],
    vocab_size: int,
    calls: int,
    count_prompts: bool,
) -> list[CachedRequest]:
    """Rows without request ids, cached by their number as long as they go on: this saves building requests.

    calls  the position of rows without any tokens.
    count_prompts  whether the prompt counts in the positions of rows with tokens.
    """
    rows = []
    for tokens, params in zip(histories, settings, strict=True):
        row = tokens.uncached(params)
        if count_prompts and tokens.has_any:
            row = tokens.after_prompt(row)
        rows.append(row if tokens.has_any else replace(row, position=calls))
    for number, row in enumerate(rows):
        cached = cache.find(number, vocab_size)
        surplus = None if cached is None else _surplus(cached, row)
        if surplus is None and cached is not None and _leads_to(cached, row):
            cache.follow(number, row, masked=False)
        elif surplus is None:
            cache.begin(number, vocab_size, row, masked=False)
        elif surplus:
            cache.rewind(number, surplus)
    return [cache.request(number) for number in range(len(rows))]


def _surplus(cached: CachedRequest, row: HistoryRow) -> int | None:
    """How many tokens to take back from `cached` to make its next draw that of `row`; None if it cannot be.

    A draw without a seed may be any that is new, so nothing is taken back for it.
    """
    params, length = row.params, len(cached.output)
    if cached.failed or length >= len(row.output) + _LONGEST_SURPLUS:
        return None
    if not (cached.params is params or cached.params == params):
        return None
    surplus = 0 if params.seed is None or is_greedy(params) else cached.position - row.position
    if not 0 <= surplus <= length:
        return None
    before = replace(cached.row, output=cached.output[: length - surplus])
    return surplus if row.has_history_of(before) else None


def _leads_to(cached: CachedRequest, row: HistoryRow) -> bool:
    """Whether other tokens after its prompt make `cached` the request of `row`.

    A row that samples without a seed begins anew: with the old seed it would repeat its draw.
    """
    repeats = row.params.seed is not None or is_greedy(row.params)
    return repeats and cached.position - len(cached.output) == row.position - len(row.output)


def ids_key(request_ids: np.ndarray | None) -> bytes:
    """What identifies the request ids of a batch."""
    return b"" if request_ids is None else request_ids.tobytes()
