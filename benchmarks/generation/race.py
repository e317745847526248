"""`race`: the tokens a second of several ways to generate, which take turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

MIN_ROUNDS, MAX_ROUNDS = 5, 60


class ModelClock:
    """The processor time that the forward passes of one engine take."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._start = 0.0

    def start(self, *_: Any) -> None:
        """Called before a forward pass."""
        self._start = process_time()

    def stop(self, *_: Any) -> None:
        """Called after a forward pass."""
        self.seconds += process_time() - self._start

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` as a forward pass."""

        def run(*arguments: Any, **keywords: Any) -> Any:
            self.start()
            try:
                return function(*arguments, **keywords)
            finally:
                self.stop()

        return run


class Side(NamedTuple):
    """One way to generate. `generate(seed)` returns the token ids of each row, prompts excluded."""

    name: str
    generate: Callable[[int], list[list[int]]]


class Speed(NamedTuple):
    """Medians over the rounds.

    tokens_per_second  of all rows together, in processor time.
    model_seconds, other_seconds  the time in forward passes and outside of them, per step.
    spread             the interquartile range of the tokens per second, relative to their median.
    """

    name: str
    tokens_per_second: float
    model_seconds: float
    other_seconds: float
    spread: float

    @property
    def share(self) -> float:
        """The share of the time that is spent outside of forward passes."""
        return self.other_seconds / (self.model_seconds + self.other_seconds)


class _Turn(NamedTuple):
    tokens: int
    steps: int
    seconds: float
    model_seconds: float


def race(sides: Sequence[Side], clock: ModelClock, seconds: float) -> list[Speed]:
    """Let all `sides` generate in turns, round after round with another seed, for about that many seconds.

    Raises ValueError if a side gives fewer tokens than the first.
    """
    begin = perf_counter()
    expected = [_take_turn(side, clock, 0).tokens for side in sides]  # the first round is the slowest
    if len(set(expected)) > 1:
        raise ValueError(f"{[side.name for side in sides]} gave {expected} tokens")
    rounds = min(max(int(seconds / (perf_counter() - begin)), MIN_ROUNDS), MAX_ROUNDS) if seconds else 1
    turns: list[list[_Turn]] = [[] for _ in sides]
    for seed in range(1, rounds + 1):
        for side, own in zip(sides, turns, strict=True):
            own.append(_take_turn(side, clock, seed))
    return [_speed(side.name, own) for side, own in zip(sides, turns, strict=True)]


def _take_turn(side: Side, clock: ModelClock, seed: int) -> _Turn:
    clock.seconds = 0.0
    start = process_time()
    rows = side.generate(seed)
    seconds = process_time() - start
    return _Turn(sum(map(len, rows)), max(map(len, rows)), seconds, clock.seconds)


def _speed(name: str, turns: Sequence[_Turn]) -> Speed:
    rates = [turn.tokens / turn.seconds for turn in turns]
    return Speed(
        name,
        median(rates),
        median(turn.model_seconds / turn.steps for turn in turns),
        median((turn.seconds - turn.model_seconds) / turn.steps for turn in turns),
        _interquartile_range(rates) / median(rates),
    )


def _interquartile_range(values: Sequence[float]) -> float:
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return ordered[-1 - quarter] - ordered[quarter]
