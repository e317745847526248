"""What a step gives back, and what is remembered of a request."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..arithmetic import Logprobs

RequestId = Hashable
StopReason = str | int | None
LogprobsByMode = Logprobs | Mapping[str, Logprobs] | None
"""`Logprobs`, a dict of them by mode if a request asked for several, or None if none asked."""


@dataclass(frozen=True)
class StepResult:
    """The outcome of one step.

    token_ids       int64 [rows], −1 where a row gave nothing (a fault, or a draft row behind a
                    mismatch or a stop).
    first_rows      int64 [requests], the first row of each request.
    logprobs        `Logprobs` over the rows, a dict of them by mode if a request asked for several
                    modes, or None if no request asked.
    The lists have one entry per request, in row order:
    text            what became certain of its text, None without a tokenizer.
    finish_reasons  stop, length, repetition, abort or error; None while it goes on.
    stop_reasons    the stop string, stop token id or criterion; None for EOS.
    errors          why it ended with `error`, else None.
    seeds           the seed its draws come from, also where it was chosen at random.
    parent_ids      the request whose cache it continues: itself, except under beam search.
    """

    token_ids: np.ndarray
    first_rows: np.ndarray
    request_ids: list[RequestId]
    text: list[str | None]
    finish_reasons: list[str | None]
    stop_reasons: list[StopReason]
    errors: list[str | None]
    seeds: list[int]
    parent_ids: list[RequestId]
    logprobs: LogprobsByMode = None

    def tokens(self, i: int) -> list[int]:
        """The tokens that request number i got in this step: one, or several with drafts."""
        end = self.first_rows[i + 1] if i + 1 < len(self.first_rows) else len(self.token_ids)
        return [t for t in self.token_ids[self.first_rows[i] : end].tolist() if t >= 0]


@dataclass(frozen=True)
class Record:
    """Everything about one request, live or finished, until it is removed."""

    request_id: RequestId
    prompt_token_ids: list[int]
    token_ids: list[int]
    text: str | None
    finish_reason: str | None
    stop_reason: StopReason
    error: str | None
    seed: int
    cumulative_logprob: float | None = field(default=None)
    """Sum of the output's logprobs, where the request belongs to a group: the raw ones with best_of, those
    after the chain in a beam search."""
    score: float | None = field(default=None)
    """What a beam search ranks the text by: cumulative_logprob / length^length_penalty."""
