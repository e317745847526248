"""The performance bars of the native backend, and whether a run meets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .cases import HALVED, MAIN, PROMPTS, THREADED, TINY, Shape
from .results import (
    FILLED,
    FIVE,
    HALF,
    JOIN,
    LEAVE,
    RUN,
    SETTINGS,
    STEP,
    TEXT,
    TRANSFORMERS,
    Results,
    periodic,
    prompt_of,
    threads,
)

PEAKED: Mapping[str, tuple[float, float, float]] = {
    "greedy": (1.3, 1.3, 24),
    "min_p": (1.5, 1.4, 50),
    "default chain": (2.0, 1.5, 20),
    "penalties, DRY, default chain": (6, 3.5, 45),
    "top_n_sigma": (3.0, 2.2, 120),
    "top_p": (12, 7, 35),
    "temperature": (11, 4.2, 35),
    "dynamic temperature": (15, 9, 200),
    "typical_p": (15, 9, 200),
    "xtc first": (15, 9, 200),
    "mirostat 2": (15, 9, 200),
    "mirostat 2, mu grown": (15, 9, 200),
}
"""Case → the maximum passes of a run of one row, the maximum passes per row of a step of 64 rows, and the
minimum ratio of llama.cpp's time to that of a run."""


class Bar(NamedTuple):
    """A bound and the measured value, None if it was not measured."""

    label: str
    bound: float
    measured: float | None
    at_most: bool = True
    unit: str = "×"

    @property
    def met(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound


def of_case(results: Results, case: str) -> tuple[Bar, Bar, Bar]:
    """The bars of a case on peaked rows: one row and 64 rows relative to the pass, one row to llama.cpp."""
    one, many, faster = PEAKED[case]
    shape = Shape(case)
    return (
        Bar(case, one, results.times(RUN, shape, "pass")),
        Bar(case, many, results.times(STEP, Shape(case, batch=64), "pass")),
        Bar(case, faster, results.times(FILLED, shape, "ours"), at_most=False),
    )


def others(results: Results) -> Iterator[Bar]:
    """All other bars."""
    chain = Shape("default chain")
    gain = results.times(TRANSFORMERS, chain, "ours")
    yield Bar("default chain, one row, faster than transformers", 400, gain, at_most=False)
    for case in ("top_p", "typical_p"):
        shape = Shape(case, rows="flat")
        yield Bar(f"{case}, one flat row, passes", 70, results.times(RUN, shape, "pass"))
        gain = results.times(FILLED, shape, "ours")
        yield Bar(f"{case}, one flat row, faster than llama.cpp", 40, gain, at_most=False)
    for case in HALVED:
        share = results.times(HALF, Shape(case, batch=64), "float32")
        yield Bar(f"{case}, 64 rows, bfloat16 relative to float32", 0.7, share)
    for period in (1, 16):
        added = _over(results, Shape(periodic(period)), RUN, "greedy")
        yield Bar(f"DRY over 2,048 tokens of period {period}, added time", 8, added, unit=" µs")
    added = _over(results, Shape(FIVE, TINY, 64), STEP, "kernels")
    yield Bar("a step of 64 requests with five configurations, beyond its kernels", 30, added, unit=" µs")
    step = results.find(STEP, Shape(TEXT, TINY, 64))
    added = step and step.over("without") / step.batch
    yield Bar("text and three stop strings, added per row of 64", 2, added, unit=" µs")
    for case in THREADED:
        yield from _threads(results, case)
    yield from _joining(results)


def _joining(results: Results) -> Iterator[Bar]:
    array, listed = (Shape(prompt_of(PROMPTS[-1], kind)) for kind in ("array", "list"))
    join, leave = results.per_row(JOIN, array), results.per_row(LEAVE, array)
    yield Bar(f"add, {array.case}", 120, join, unit=" µs")
    yield Bar(f"remove, {array.case}", 25, leave, unit=" µs")
    beyond = _over(results, listed, JOIN, "conversion")
    yield Bar(f"add, {listed.case}, beyond its conversion", 120, beyond, unit=" µs")
    yield Bar(SETTINGS, 20, results.per_row(STEP, Shape(SETTINGS)), unit=" µs")


def _threads(results: Results, case: str) -> Iterator[Bar]:
    for busy, bound in ((False, 1.7), (True, 0.9)):
        times = results.times(threads(busy), Shape(case, MAIN, 64), "one")
        label = f"{case}, 64 rows, two threads faster than one{', other core busy' if busy else ''}"
        if busy or case != "default chain":  # the default chain is limited by memory
            yield Bar(label, bound, times and 1 / times, at_most=False)


def _over(results: Results, shape: Shape, series: str, yardstick: str) -> float | None:
    entry = results.find(series, shape)
    return entry and entry.over(yardstick)


def tally(results: Results) -> tuple[int, int]:
    """The number of bars met and the number of bars measured."""
    bars = [*others(results), *(bar for case in PEAKED for bar in of_case(results, case))]
    met = [bar.met for bar in bars if bar.met is not None]
    return sum(met), len(met)
