"""Steps first: long work on another thread gives the interpreter's lock to a step that waits for it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

Entry = TypeVar("Entry")

SLICE = 2e-4
"""The seconds for which a thread works before it gives way: a step may wait this long, instead of the 5 ms
after which the interpreter hands over its lock."""

_PAUSE = 5e-5
"""The seconds of a pause: long enough for another thread to wake up and take the lock."""

_AT_A_TIME = 64
"""The entries between two looks at the clock."""

_stepping: set[int] = set()
"""The threads on which a step runs."""


begin_step: Callable[[int], None] = _stepping.add
"""A step runs on the thread of this number from now on."""

end_step: Callable[[int], None] = _stepping.discard
"""The step on the thread of this number has ended."""


def give_way() -> None:
    """Let a step on another thread go first, if there is one. Costs nothing otherwise."""
    if _stepping and threading.get_ident() not in _stepping:
        time.sleep(_PAUSE)


def in_slices(entries: Iterable[Entry], at_a_time: int = _AT_A_TIME) -> Iterator[list[Entry]]:
    """The entries, some at a time; between slices, steps on other threads go first."""
    rest = iter(entries)
    end = time.perf_counter() + SLICE
    while some := list(islice(rest, at_a_time)):
        yield some
        if (now := time.perf_counter()) > end:
            give_way()
            end = (now if not _stepping else time.perf_counter()) + SLICE


def unhurried(entries: Iterable[Entry], at_a_time: int = _AT_A_TIME) -> Iterator[Entry]:
    """The entries, one by one, for a loop that may take long; steps on other threads go first."""
    for some in in_slices(entries, at_a_time):
        yield from some


def _only_this_thread() -> None:
    """In the child of a fork: steps on the parent's other threads do not run here."""
    _stepping.intersection_update({threading.get_ident()})


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_only_this_thread)
