"""`measure`: one number of the tables, timed in the same loop as its yardsticks.

The speed of a shared machine changes by the second. Work and yardsticks therefore take turns, and the
result is the ratio of their medians.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from .cases import Shape

SECONDS = 0.8
"""Time budget of one number, including its yardsticks."""
MIN_ROUNDS, MAX_ROUNDS = 7, 1000
WARM_UP = 5
"""Untimed calls of a yardstick on a hot row, because a peer's calls have emptied the caches."""


def nothing() -> None:
    """The preparation of work that needs none."""


class Work(NamedTuple):
    """A call to time, and an untimed preparation before each call."""

    call: Callable[[], Any]
    before: Callable[[], Any] = nothing

    def repeat(self) -> None:
        """Call once, untimed; afterwards its data is in the cache, if it fits."""
        self.before()
        self.call()

    def seconds(self, timer: Callable[[], float]) -> float:
        """The time of one call."""
        self.before()
        start = timer()
        self.call()
        return timer() - start


def measure(
    benchmark: Any,
    work: Work,
    series: str,
    shape: Shape,
    yardsticks: Mapping[str, Work] | None = None,
) -> None:
    """Time `work` and its `yardsticks` with the same clock; a single row is hot in the cache."""
    yardsticks, timer = yardsticks or {}, benchmark._timer
    times: dict[str, list[float]] = {name: [] for name in yardsticks}

    def take_turns() -> None:
        for name, yardstick in yardsticks.items():
            for _ in range(WARM_UP if shape.batch == 1 else 0):
                yardstick.repeat()
            times[name].append(yardstick.seconds(timer))
        if shape.batch == 1:
            work.repeat()
        work.before()

    for _ in range(2):  # the first round is slower than any other
        start = perf_counter()
        take_turns()
        work.call()
        seconds = perf_counter() - start
    for taken in times.values():
        taken.clear()
    benchmark.group, benchmark.name = str(shape), series
    rounds = min(max(int(SECONDS / seconds), MIN_ROUNDS), MAX_ROUNDS)
    benchmark.pedantic(work.call, setup=take_turns, rounds=rounds)
    medians = {name: median(taken) for name, taken in times.items()}
    benchmark.extra_info.update(series=series, **shape._asdict(), yardsticks=medians)
