"""Beam search: which continuations of a group's texts go on, and which texts are the best that ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ..arithmetic import top_columns

Text = TypeVar("Text")


class Candidate(NamedTuple):
    """One token more for one of the texts.

    beam      the number of the text it continues.
    token_id  the token.
    logprob   what it adds.
    score     the sum of all logprobs of the text, this one included.
    """

    beam: int
    token_id: int
    logprob: float
    score: float


@dataclass(frozen=True)
class Ended(Generic[Text]):
    """A text that has ended: its sum of logprobs over its length to the power of the length penalty."""

    score: float
    text: Text


@dataclass
class BeamSearch(Generic[Text]):
    """The state of one search; `Text` is whatever the caller keeps of a text.

    width           texts that are followed at a time, and kept of those that ended.
    length_penalty  p: a text of n output tokens has the score Σ logprob / nᵖ. Above 0 longer texts are
                    favoured.
    early_stopping  True: the search is over when `width` texts have ended. False: when the best text under
                    way, ended as it is, would be worse than all of those. "never": when it would be even if
                    all tokens to come were certain (needs max_tokens, and differs for p > 0 only).
    eos_count       how many tokens end a text: (1 + eos_count) · width candidates are looked at, so that
                    `width` of them go on.
    max_tokens      output tokens at most, if known.

    The candidates of a step are the (1 + eos_count) · width best of all texts by their sum of logprobs, ties
    by text, then by token id. Those among the first `width` that end a text are kept, if they are better than
    what is kept already; the best `width` that do not go on. Source: transformers' generate(num_beams=…).
    """

    width: int
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    eos_count: int = 1
    max_tokens: int | None = None
    scores: list[float] = field(init=False)
    """The sums of logprobs of the texts under way; −inf for one that is only there to fill a row."""
    ended: list[Ended[Text]] = field(init=False, default_factory=list)
    """The best texts that have ended, the best first."""
    length: int = field(init=False, default=0)
    """Output tokens of the texts under way."""
    done: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        # All texts are the same prompt at first: one of them stands for all.
        self.scores = [0.0] + [-math.inf] * (self.width - 1)

    def candidates(self, logprobs: Sequence[np.ndarray | None]) -> list[Candidate]:
        """The best continuations, the best first. `logprobs`: of each text a float row [vocab], −inf for what
        cannot follow; None for a text that nothing can follow."""
        most = max(2, 1 + self.eos_count) * self.width
        found: list[Candidate] = []
        for beam, row in enumerate(logprobs):
            if row is None or self.scores[beam] == -math.inf:
                continue
            columns = top_columns(row, min(most, len(row)))
            found += [
                Candidate(beam, token_id, logprob, self.scores[beam] + logprob)
                for token_id, logprob in zip(columns.tolist(), row[columns].tolist(), strict=True)
                if logprob > -math.inf
            ]
        return sorted(found, key=lambda c: (-c.score, c.beam, c.token_id))[:most]

    def advance(
        self, candidates: Sequence[Candidate], texts: Sequence[Text], ends: Sequence[bool]
    ) -> list[int]:
        """Take the step: `texts` are those of `candidates` with the token, `ends` says which have ended.

        Returns the numbers of the candidates that go on as text 0, 1, …; several may be the same one where
        there are fewer than `width`. `done` says if the search is over.
        """
        self.length += 1
        going = [i for i, over in enumerate(ends) if not over][: self.width]
        self._keep([i for i, over in enumerate(ends[: self.width]) if over], candidates, texts)
        self.scores = [candidates[i].score for i in going] + [-math.inf] * (self.width - len(going))
        self.done = not going or self._is_over()
        return going + going[:1] * (self.width - len(going))

    def _keep(self, over: Sequence[int], candidates: Sequence[Candidate], texts: Sequence[Text]) -> None:
        """Keep the best of those that have ended; of equal ones those that ended first."""
        if self.early_stopping is True and len(self.ended) == self.width:
            return
        fresh = [Ended(self._penalized(candidates[i].score, self.length), texts[i]) for i in over]
        self.ended = sorted([*self.ended, *fresh], key=lambda e: -e.score)[: self.width]

    def _is_over(self) -> bool:
        if len(self.ended) < self.width:
            return False
        if self.early_stopping is True:
            return True
        length = self.length
        if self.early_stopping == "never" and self.length_penalty > 0 and self.max_tokens is not None:
            length = self.max_tokens
        return self._penalized(self.scores[0], length) <= self.ended[-1].score

    def _penalized(self, score: float, length: int) -> float:
        return float(score / length**self.length_penalty)
