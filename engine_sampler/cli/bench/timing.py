"""Calls that take turns: the speed of a shared machine changes by the second, but not between two turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

LEAST_ROUNDS = 5


@dataclass(frozen=True)
class Measurement:
    """One line of the table.

    name     what was timed.
    rows     rows of logits in one call.
    seconds  the median of one call.
    passes   its ratio to reading the same logits once; None where that means nothing.
    ratio    how many times as long as our default chain on the same rows: for peers only.
    """

    name: str
    rows: int
    seconds: float
    passes: float | None = None
    ratio: float | None = None


def medians(calls: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The median time of each call in seconds; they take turns for so long, and at least five times each."""
    for call in calls.values():  # the first is slower than any other
        call()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    end = perf_counter() + seconds
    rounds = 0
    while rounds < LEAST_ROUNDS or perf_counter() < end:
        for name, call in calls.items():
            start = perf_counter()
            call()
            taken[name].append(perf_counter() - start)
        rounds += 1
    return {name: median(times) for name, times in taken.items()}
