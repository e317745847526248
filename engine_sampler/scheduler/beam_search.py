"""Beam search: which continuations of a group's texts survive, and which finished texts are the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ..arithmetic import top_columns

Text = TypeVar("Text")


class Candidate(NamedTuple):
    """A text extended by one token.

    beam      the number of the text that it continues.
    token_id  the new token.
    logprob   the token's logprob.
    score     the sum of the text's logprobs, this one included.
    """

    beam: int
    token_id: int
    logprob: float
    score: float


@dataclass(frozen=True)
class Ended(Generic[Text]):
    """A text that has ended. Its score is the sum of its logprobs over its length to the power of the length
    penalty."""

    score: float
    text: Text


@dataclass
class BeamSearch(Generic[Text]):
    """The state of one search; `Text` is the caller's representation of a text.

    width           how many texts are continued in each step, and how many finished ones are kept.
    length_penalty  p: a text of n output tokens has the score Σ logprob / nᵖ. Above 0, longer texts
                    are favoured.
    early_stopping  True: the search is over when `width` texts have ended. False: when, in addition, the
                    best live text, if it ended now, would score no better than any of them. "never": when
                    that holds even if all tokens to come were certain (needs max_tokens, and differs for
                    p > 0 only).
    eos_count       how many EOS tokens there are: (1 + eos_count) · width candidates besides stop tokens are
                    considered, so that at least `width` of them continue.
    max_tokens      the maximum number of output tokens, if known.

    The candidates of a step are the best of all texts by their sum of logprobs, ties by text, then by token
    id. Those among the first `width` that end a text are kept if they are better than the finished texts kept
    so far; a stop token further back counts for nothing. The best `width` of those that do not end are
    continued. Source: transformers' generate(num_beams=…).
    """

    width: int
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    eos_count: int = 1
    max_tokens: int | None = None
    scores: list[float] = field(init=False)
    """The sums of logprobs of the live texts; −inf for one that only fills a row."""
    ended: list[Ended[Text]] = field(init=False, default_factory=list)
    """The best finished texts, the best first."""
    length: int = field(init=False, default=0)
    """The number of output tokens of each live text."""
    done: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        # At first all texts are the same prompt: one of them represents all.
        self.scores = [0.0] + [-math.inf] * (self.width - 1)

    def candidates(
        self, logprobs: Sequence[np.ndarray | None], stops: Sequence[np.ndarray | None] = ()
    ) -> list[Candidate]:
        """The best continuations, the best first.

        logprobs  for each text a float32 row [vocab], −inf for tokens that cannot follow; None for a text
                  that cannot be continued.
        stops     for each text the ids, int64, after which it surely ends, besides EOS; none by default.
        """
        count = max(2, 1 + self.eos_count) * self.width
        per_beam = [
            _best(row, beam, self.scores[beam], count, self.width, stops[beam] if stops else None)
            for beam, row in enumerate(logprobs)
            if row is not None and self.scores[beam] > -math.inf
        ]
        if not per_beam:
            return []
        every = np.concatenate(per_beam)
        every = every[np.lexsort((every["token_id"], every["beam"], -every["score"]))]
        is_stop = every["is_stop"]
        counts = np.where(is_stop, np.arange(len(every)) < self.width, np.cumsum(~is_stop) <= count)
        return [Candidate(*fields) for fields in every[counts][list(Candidate._fields)].tolist()]

    def advance(
        self, candidates: Sequence[Candidate], texts: Sequence[Text], ends: Sequence[bool]
    ) -> list[int]:
        """Take the step: `texts` are those of `candidates`, `ends` says which of them have ended.

        Returns the numbers of the candidates that become text 0, 1, …; the first is repeated if fewer than
        `width` continue. Afterwards `done` says whether the search is over.
        """
        self.length += 1
        continued = [i for i, over in enumerate(ends) if not over][: self.width]
        self._keep([i for i, over in enumerate(ends[: self.width]) if over], candidates, texts)
        self.scores = [candidates[i].score for i in continued] + [-math.inf] * (self.width - len(continued))
        self.done = not continued or self._is_over()
        return continued + continued[:1] * (self.width - len(continued))

    def _keep(self, over: Sequence[int], candidates: Sequence[Candidate], texts: Sequence[Text]) -> None:
        """Keep the best finished texts; among equal scores, those that ended first."""
        if self.early_stopping is True and len(self.ended) == self.width:
            return
        new = [Ended(self._penalized(candidates[i].score, self.length), texts[i]) for i in over]
        self.ended = sorted([*self.ended, *new], key=lambda e: -e.score)[: self.width]

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


_CANDIDATE = np.dtype(
    [
        ("beam", np.int64),
        ("token_id", np.int64),
        ("logprob", np.float64),
        ("score", np.float64),
        ("is_stop", bool),
    ]
)


def _best(
    row: np.ndarray, beam: int, score: float, count: int, width: int, stops: np.ndarray | None
) -> np.ndarray:
    """The best continuations of one text: `count` besides `stops`, and its best `width` of all."""
    columns = top_columns(row, min(count, len(row)))
    is_stop = np.zeros(len(columns), bool)
    if stops is not None and len(stops):
        others = row.copy()
        others[stops] = -np.inf
        columns = np.union1d(columns[:width], top_columns(others, min(count, len(row))))
        is_stop = np.isin(columns, stops)
    found = np.empty(len(columns), _CANDIDATE)
    found["beam"], found["token_id"], found["logprob"] = beam, columns, row[columns]
    found["score"], found["is_stop"] = score + found["logprob"], is_stop
    return found[found["logprob"] > -math.inf]
