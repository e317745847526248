"""The work of reading one grammar, over all front ends: a tag may hold schemas, and these patterns."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from decimal import Decimal
from itertools import islice
from typing import TypeVar
from weakref import ref

from ..base.giving_way import give_way
from .errors import GrammarLimitError
from .limits import LIMITS, Limits

_STEPS_BETWEEN_PAUSES = 512
"""The steps after which steps of a scheduler on other threads go first: about half a millisecond."""

_COUNTED_AT_A_TIME = 128
"""The items of a long loop that are counted together."""

_SORTED_AT_A_TIME = 8192
"""The items of a long list that are sorted before others are counted, in a few milliseconds."""

_UNCOUNTED = 8
"""The length up to which a loop is not counted: its caller counts itself."""

Item = TypeVar("Item")
Kept = TypeVar("Kept")
Ordered = TypeVar("Ordered", str, Decimal, bytes, tuple[int, ...], tuple[int, int])


class ReadingWork:
    """Counts the steps of reading one grammar, each of about a microsecond."""

    __slots__ = ("_limit", "_owner", "kept", "left", "next_pause")

    def __init__(self, owner: counted_work, limits: Limits = LIMITS) -> None:
        self._owner = ref(owner)
        self.kept: dict[type[object], object] = {}
        self.left = self.next_pause = self._limit = limits.reading

    def spend(self, steps: int = 1) -> None:
        """Count `steps` more. Raises GrammarLimitError when there are more than the limit allows."""
        self.left -= steps
        if self.left < self.next_pause:
            self.pause()

    @property
    def is_over(self) -> bool:
        """Whether the reading was interrupted before its block had begun, or while it ended: then nothing has
        ended the counting."""
        return self._owner() is None

    def pause(self) -> None:
        """What is due once `left` is below `next_pause`: steps on other threads go first. Or raise
        GrammarLimitError."""
        if self.left < 0 and self.is_over:
            _CURRENT.set(None)
        elif self.left < 0:
            raise GrammarLimitError(
                f"the grammar needs more than {self._limit} steps to be read (Limits.reading)"
            )
        self.next_pause = max(0, self.left - _STEPS_BETWEEN_PAUSES)
        give_way()


_CURRENT: ContextVar[ReadingWork | None] = ContextVar("work", default=None)


class counted_work:
    """The counter of the grammar that is being read: that of the enclosing call, or a new one.

    Turns a RecursionError within into a GrammarLimitError: how deep a grammar may be nested also depends on
    the depth of the caller's stack.
    """

    __slots__ = ("__weakref__", "_limits", "_token")

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._token: Token[ReadingWork | None] | None = None  # of the outermost call only

    def __enter__(self) -> ReadingWork:
        work = _CURRENT.get()
        if work is None or work.is_over:
            work = ReadingWork(self, self._limits)
            self._token = _CURRENT.set(work)
        return work

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)
        if isinstance(error, RecursionError):
            raise GrammarLimitError("the grammar is nested too deep for the remaining stack") from None


def spend(steps: int = 1) -> None:
    """Count steps of the grammar that is being read; outside of `counted_work`, nothing is counted."""
    work = _CURRENT.get()
    if work is not None:  # as `work.spend` does, without one more call
        work.left -= steps
        if work.left < work.next_pause:
            work.pause()


def kept_while_reading(kind: type[Kept]) -> Kept:
    """The one `kind()` of the grammar that is being read; outside of `counted_work`, a new one."""
    work = _CURRENT.get()
    if work is None:
        return kind()
    kept = work.kept.get(kind)
    if not isinstance(kept, kind):
        kept = work.kept[kind] = kind()
    return kept


def spend_on_each(items: Iterable[Item], steps: float = 1) -> Iterable[Item]:
    """The items of a loop whose length a client chooses; each counts as `steps`, which may be a fraction,
    some items at a time. So few that counting them would take longer than they do are not counted."""
    try:
        count = len(items)  # type: ignore[arg-type]
    except TypeError:  # of an iterator
        return _some_at_a_time(items, steps)
    if count > _COUNTED_AT_A_TIME:
        return _some_at_a_time(items, steps)
    if count > _UNCOUNTED:
        spend(int(steps * count))
    return items


def _some_at_a_time(items: Iterable[Item], steps: float) -> Iterator[Item]:
    uncounted = iter(items)
    while batch := tuple(islice(uncounted, _COUNTED_AT_A_TIME)):
        spend(int(steps * len(batch)))
        yield from batch


def sort(items: Collection[Ordered]) -> list[Ordered]:
    """The items in ascending order; sorting many is counted."""
    if len(items) <= _COUNTED_AT_A_TIME:
        return sorted(items)
    unsorted = list(items)
    runs = []
    for begin in range(0, len(unsorted), _SORTED_AT_A_TIME):
        spend(_SORTED_AT_A_TIME // 8)
        runs.append(sorted(unsorted[begin : begin + _SORTED_AT_A_TIME]))
    return list(spend_on_each(heapq.merge(*runs)))


@contextmanager
def half_of_work() -> Iterator[None]:
    """Within it, half of the steps that are left may be spent: more raise GrammarLimitError, and the
    caller that catches it may spend the other half."""
    work = _CURRENT.get()
    kept = 0 if work is None else max(0, work.left // 2)
    if work is not None:
        work.left -= kept
    try:
        yield
    finally:
        if work is not None:
            work.left = work.next_pause = max(0, work.left) + kept


class limited_work:
    """Within it, no more than some steps may be spent. Where more are needed, the rest of the block is left
    out, and `is_spent` says so, unless the whole limit is reached, which raises GrammarLimitError."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._kept = 0
        self.is_spent = False

    def __enter__(self) -> limited_work:
        work = _CURRENT.get()
        if work is not None and work.left > self._steps:
            self._kept = work.left - self._steps
            work.left = work.next_pause = self._steps
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        work = _CURRENT.get()
        if work is None or not self._kept:
            return False
        self.is_spent = isinstance(error, GrammarLimitError) and work.left < 0
        work.left = work.next_pause = max(0, work.left) + self._kept
        return self.is_spent
