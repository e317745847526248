"""`measure`: one number of the tables, labelled for `render`."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

SECONDS = 0.8
"""Spent on one number."""
ROUNDS = (15, 500)
SHORTEST_ROUND = 50e-6
"""Seconds; quicker work is repeated within a round."""


def measure(
    benchmark: Any,
    work: Callable[[], Any],
    who: str,
    *,
    setup: Callable[[], None] | None = None,
    case: str,
    vocab_size: int,
    batch: int,
    flat: bool = False,
) -> None:
    """Time `work`, with an untimed `setup` before each call if one is given."""
    benchmark.group = f"{case}, vocabulary {vocab_size}, batch {batch}{', flat row' if flat else ''}"
    benchmark.name = who
    benchmark.extra_info.update(who=who, case=case, vocab_size=vocab_size, batch=batch, flat=flat)
    prepare = setup or (lambda: None)
    for _ in range(2):  # the first call is slower than any other
        prepare()
        start = perf_counter()
        work()
        seconds = perf_counter() - start
    iterations = 1 if setup else max(1, round(SHORTEST_ROUND / seconds))
    rounds = int(SECONDS / (seconds * iterations))
    least, most = ROUNDS
    benchmark.pedantic(work, setup=setup, iterations=iterations, rounds=min(max(rounds, least), most))
