"""`take_turns`: the processor time of an engine's step and of ours."""

from __future__ import annotations

from statistics import median, quantiles
from time import process_time

from ..measure import Work
from .cases import Cost

MIN_ROUNDS, MAX_ROUNDS = 3, 200


def take_turns(own: Work | None, ours: Work, seconds: float) -> Cost:
    """Medians over rounds in which both take turns, for about that many seconds of processor time: at least
    three rounds, or one if `seconds` is 0."""
    works = [ours] if own is None else [ours, own]
    first = sum(work.seconds(process_time) for work in works)  # the slowest round
    rounds = min(max(int(seconds / max(first, 1e-6)), MIN_ROUNDS), MAX_ROUNDS) if seconds else 1
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, times in zip(works, taken, strict=True):
            times.append(work.seconds(process_time))
    middle = median(taken[0])
    quarters = quantiles(taken[0], n=4) if rounds > 1 else [middle] * 3
    return Cost(median(taken[1]) if own else None, middle, (quarters[2] - quarters[0]) / middle)
