"""Values drawn by `random.Random`, for tests with hundreds of small examples, the same in every run.

Drawing them by hypothesis takes several times as long as checking them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
Draw = Callable[[Random], T]


def integers(low: int, high: int) -> Draw[int]:
    """From `low` to `high`; one of the two more often than the others."""
    return lambda random: random.choice((low, high)) if random.random() < 0.1 else random.randint(low, high)


def one_of(*values: T) -> Draw[T]:
    return lambda random: random.choice(values)


def either(*draws: Draw[Any]) -> Draw[Any]:
    return lambda random: random.choice(draws)(random)


def lists(draw: Draw[T], most: int, least: int = 0) -> Draw[list[T]]:
    """Of `least` to `most` elements; often few of them."""

    def drawn(random: Random) -> list[T]:
        length = random.randint(least, max(least, random.choice((most, most // 4))))
        return [draw(random) for _ in range(length)]

    return drawn


def examples(count: int, *draws: Draw[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test `count` times, with a value of each of `draws` for its last parameters."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        parameters = list(signature.parameters.values())
        others, names = parameters[: -len(draws)], [each.name for each in parameters[-len(draws) :]]

        @functools.wraps(test)
        def run(**given: Any) -> None:
            random = Random(test.__qualname__)
            for _ in range(count):
                test(**given, **{name: draw(random) for name, draw in zip(names, draws, strict=True)})

        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorated


def bytes_of(alphabet: Sequence[int], most: int, least: int = 0) -> Draw[bytes]:
    some = lists(one_of(*alphabet), most, least)
    return lambda random: bytes(some(random))
