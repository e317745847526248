"""`measure`: one number of the tables, and its yardsticks in the same loop.

A shared machine changes its speed by the second. So work and yardsticks take turns, and what counts is
the ratio of their medians.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from .cases import Shape

SECONDS = 0.8
"""Spent on one number, yardsticks included."""
ROUNDS = (7, 1000)
WARMING = 5
"""Untimed calls of a yardstick on a hot row: a peer's have emptied the caches."""


def nothing() -> None:
    """Before work that needs nothing."""


class Work(NamedTuple):
    """A call to time, and what comes untimed before each."""

    call: Callable[[], Any]
    before: Callable[[], Any] = nothing

    def repeat(self) -> None:
        """Once, untimed: what it reads lies in the cache then, if it fits."""
        self.before()
        self.call()

    def seconds(self, timer: Callable[[], float]) -> float:
        """How long a call takes."""
        self.before()
        start = timer()
        self.call()
        return timer() - start


def measure(
    benchmark: Any,
    work: Work,
    who: str,
    shape: Shape,
    beside: Mapping[str, Work] | None = None,
) -> None:
    """Time `work`, and the yardsticks `beside` it by the same clock; one row is hot."""
    yardsticks, timer = beside or {}, benchmark._timer
    times: dict[str, list[float]] = {name: [] for name in yardsticks}

    def take_turns() -> None:
        for name, yardstick in yardsticks.items():
            for _ in range(WARMING if shape.batch == 1 else 0):
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
    benchmark.group, benchmark.name = str(shape), who
    least, most = ROUNDS
    benchmark.pedantic(work.call, setup=take_turns, rounds=min(max(int(SECONDS / seconds), least), most))
    medians = {name: median(taken) for name, taken in times.items()}
    benchmark.extra_info.update(who=who, **shape._asdict(), beside=medians)
