"""Why a token was not drawn: the step that removed it, and what that step kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..contract import ParameterError
from .labels import percent, settings_text
from .tracing import TraceStep


@dataclass(frozen=True)
class TokenFate:
    """What became of a token in the steps of a `trace`.

    token_id     the token.
    outcome      "chosen"; "left", when the selector chose another; "removed" by a step; "impossible" if the
                 row as given has −inf for it.
    step         the number of that step in the trace; of the last one for "left" and "chosen".
    name         of that step; `settings` are its own parameters.
    rank         how many tokens were likelier before that step, plus 1; 0 if it was impossible.
    probability  before that step.
    kept         how many tokens the step kept; `least_kept` and `most_kept` are the least and the greatest of
                 their probabilities before it: the threshold lies between `least_kept` and `probability`.
    """

    token_id: int
    outcome: str
    step: int
    name: str
    settings: dict[str, Any]
    rank: int
    probability: float
    kept: int
    least_kept: float
    most_kept: float

    def __str__(self) -> str:
        if self.outcome == "impossible":
            return "the row has −inf for it, before any step"
        was = f"{percent(self.probability)}, rank {self.rank:,}"
        if self.outcome == "chosen":
            return f"chosen by {self.name}; before that {was}"
        if self.outcome == "left":
            return f"left until the end, with {was}; {self.name} drew another"
        by = f"{self.name} {settings_text(self.settings, self.name)}".rstrip()
        span = f"{self.kept:,} tokens of {percent(self.least_kept)} to {percent(self.most_kept)}"
        return f"removed by step {self.step}, {by}: it had {was}; kept are {span}"


def why_not(steps: Sequence[TraceStep], token_id: int) -> TokenFate:
    """What became of a token in the steps of a `trace`: which step removed it, and by which threshold.

        steps = trace(row, SamplingParams(top_k=40, min_p=0.05))
        print(why_not(steps, 317))

    Raises `ParameterError` for an id outside the vocabulary.
    """
    size = len(steps[0].probabilities)
    if not 0 <= token_id < size:
        raise ParameterError(f"token_id={token_id!r} is not allowed: 0 to {size - 1}")
    alive = [bool(step.probabilities[token_id] > 0) for step in steps]
    number = next((i for i, is_alive in enumerate(alive) if not is_alive), len(steps) - 1)
    step = steps[number]
    if number == 0:
        outcome = "impossible"
    elif step.role == "selector":
        outcome = "chosen" if step.token_id == token_id else "left"
    else:
        outcome = "removed"
    before = steps[max(number - 1, 0)].probabilities
    probability = float(before[token_id])
    kept = before[step.probabilities > 0]
    return TokenFate(
        token_id=token_id,
        outcome=outcome,
        step=number,
        name=step.name,
        settings=step.settings,
        rank=0 if outcome == "impossible" else int(np.count_nonzero(before > probability)) + 1,
        probability=probability,
        kept=len(kept),
        least_kept=float(kept.min()),
        most_kept=float(kept.max()),
    )
