"""`RankError`: what a rank raises when another one has failed."""

from __future__ import annotations

from collections.abc import Mapping

from engine_sampler import StepResult


class RankError(RuntimeError):
    """Some ranks have failed, or differ from the others; raised on all ranks of the group alike.

    reasons  what went wrong, by rank.
    result   if ranks failed while they sampled: the step as far as it went, else None. Requests of the
             failed ranks have no token and no finish reason in it; all others have theirs, and have advanced.
    """

    def __init__(self, reasons: Mapping[int, str], result: StepResult | None = None) -> None:
        self.reasons = dict(reasons)
        self.result = result
        super().__init__("; ".join(f"rank {rank}: {reason}" for rank, reason in self.reasons.items()))
