"""`PromptScores`: the logprobs of the tokens of a prompt, computed as its rows come."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...arithmetic import GivenLogprobs, LogitRows, Logprobs, RowGiven
from ...backends.scoring import given_of, logprobs_of
from ...base.errors import warn_once
from ...contract import Backend, ParameterError, Vocabulary
from ...params import SamplingParams
from ..history import History

_NOT_SCORED = (
    "prompt_logprobs has no effect: a request that asks for them has ended, and the engine has not "
    "called Scheduler.score_prompt(request_id, logits) with the rows of its prompt"
)

TILE_BYTES = 64 << 20
"""Rows on a device that the backend does not read from are copied to the host in parts of this size."""


class PromptScores(NamedTuple):
    """What `Scheduler.score_prompt` has found in some rows of a prompt, one after the other.

    start     the position of the first of them in the prompt: row r predicts token start + r + 1.
    logprobs  `Logprobs` over the rows: that of the prompt's own next token first, then the likeliest; None
              without `prompt_logprobs`.
    given     `GivenLogprobs` over the rows: of the tokens that `prompt_logprob_token_ids` names; None
              without them.

    They are the logprobs of the model, whatever `logprobs_mode` is. A faulty row has none (NaN), and rank 0.
    """

    start: int
    logprobs: Logprobs | None
    given: GivenLogprobs | None


class PromptScoring:
    """The rows of a prompt that are to be scored, shared by the siblings and forks that have the prompt.

    done  how many have been.
    """

    def __init__(
        self,
        next_ids: np.ndarray,
        start: int,
        top_n: int | None,
        named: Sequence[Sequence[int]],
        *,
        is_due: bool = True,
    ) -> None:
        """`next_ids`: the token that each row predicts, beginning with row `start` of the prompt; `is_due`:
        whether something is missing if no row comes."""
        self.done = 0
        self._is_due = is_due
        self._next_ids = next_ids
        self._start = start
        self._top_n = top_n
        self._named = named

    @classmethod
    def of(cls, params: SamplingParams, history: History, vocabulary: Vocabulary) -> PromptScoring | None:
        """None for parameters that ask for none. A request that comes with output may have been scored
        elsewhere. Raises `ParameterError` for ids that do not exist, and for
        more rows of them than the prompt has."""
        top_n, named = params["prompt_logprobs"], params["prompt_logprob_token_ids"] or ()
        if top_n is None and not named:
            return None
        start = params["prompt_logprob_start"]
        next_ids = history.prompt_token_ids[start + 1 :]
        if len(named) > len(next_ids):
            raise ParameterError(
                f"prompt_logprob_token_ids has {len(named)} rows, which is not allowed: at most "
                f"{len(next_ids)}, one for each token of the prompt after prompt_logprob_start={start} but "
                "the last"
            )
        vocabulary.check_ids("prompt_logprob_token_ids", itertools.chain.from_iterable(named))
        return cls(next_ids, start, top_n, named, is_due=not history.output_length)

    def score(self, rows: LogitRows, backend: Backend) -> PromptScores:
        """Score the next `rows`. Raises ValueError for more than are left, before anything is computed."""
        first, end = self.done, self.done + len(rows)
        if end > len(self._next_ids):
            raise ValueError(
                f"logits have {len(rows)} rows; {len(self._next_ids) - first} are left to score, from row "
                f"{self._start + first} of the prompt on: its last row belongs to the first step"
            )
        logprobs = None if self._top_n is None else self._logprobs(rows, self._top_n, backend)
        given = GivenLogprobs.of([self._named_in(rows, i, backend) for i in range(len(rows))])
        self.done = end
        return PromptScores(self._start + first, logprobs, given if self._named else None)

    def tell_unless_done(self) -> None:
        """Say once in a process that nobody has scored a prompt, if nobody has."""
        if self._is_due and not self.done and len(self._next_ids):
            warn_once(_NOT_SCORED)

    def _logprobs(self, rows: LogitRows, top_n: int, backend: Backend) -> Logprobs:
        next_ids = self._next_ids[self.done : self.done + len(rows)]
        if rows.remote is None or backend.reads_from(rows.device):
            return logprobs_of(rows, next_ids, top_n, backend)
        size = max(1, TILE_BYTES // (4 * rows.width))
        tiles = [slice(i, i + size) for i in range(0, len(rows), size)] or [slice(0)]
        return Logprobs.joined(
            [logprobs_of(_on_host(rows, tile), next_ids[tile], top_n, backend) for tile in tiles]
        )

    def _named_in(self, rows: LogitRows, i: int, backend: Backend) -> RowGiven | None:
        number = self.done + i
        if number >= len(self._named) or not len(self._named[number]):
            return None
        row = rows.row(i) if rows.remote is None else _on_host(rows, slice(i, i + 1)).row(0)
        return given_of(row, np.array(self._named[number], np.int64), backend)


def _on_host(rows: LogitRows, which: slice) -> LogitRows:
    """A copy of some of `rows`, which lie on a device, and of no others."""
    return LogitRows(rows.source[which], rows.vocab_size).take(slice(None))
