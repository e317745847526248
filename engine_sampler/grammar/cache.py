"""A bounded cache of computed values, by the key that each was computed from."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from ..base.forking import fork_safe

Value = TypeVar("Value")


class CacheInfo(NamedTuple):
    """The counts of a cache so far, its content and its bounds.

    weight, max_weight  the bytes of its values
    shared, max_shared  the bytes of tables beside them that the values share, if there are any
    """

    hits: int
    misses: int
    size: int
    max_size: int
    weight: int
    max_weight: int
    shared: int = 0
    max_shared: int = 0


class _Entry(Generic[Value]):
    """A cached value and its weight; once it has been dropped, it has neither."""

    __slots__ = ("value", "weight")

    def __init__(self, value: Value, weight: int) -> None:
        self.value = value
        self.weight: int | None = weight

    def drop(self) -> None:
        """Release the value, although the entry may still be due to be weighed."""
        self.weight = None
        del self.value


class Cache(Generic[Value]):
    """The most recently used values, at most `max_size` of them and `max_weight` in total; thread-safe.

    weigh  the weight of a value, for example its size in bytes. The newest value is kept even if it alone
           weighs more than `max_weight`.
    grow   whether values grow: whenever another one comes, the next one is weighed again, in turn.
    """

    def __init__(
        self, max_size: int, max_weight: int, weigh: Callable[[Value], int], *, grow: bool = False
    ) -> None:
        self._max_size, self._max_weight, self._weigh, self._grow = max_size, max_weight, weigh, grow
        self._values: OrderedDict[Hashable, _Entry[Value]] = OrderedDict()
        self._due: list[_Entry[Value]] = []  # those to be weighed again, the next one last
        self._weight = self._hits = self._misses = 0
        self._lock = fork_safe(threading.RLock())

    def find(self, key: Hashable) -> Value | None:
        """The value of `key`, if it is still cached."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                self._misses += 1
                return None
            self._values.move_to_end(key)
            self._hits += 1
            return entry.value

    def put(self, key: Hashable, value: Value) -> Value:
        """Cache `value` under `key`; returns the cached value, which is an earlier one if there is one."""
        with self._lock:
            if (found := self._values.get(key)) is not None:
                return found.value
            weight = self._weigh(value)
            self._values[key] = _Entry(value, weight)
            self._weight += weight
            if self._grow:
                self._weigh_next()
            self._shrink()
        return value

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """The value of `key`; without one, the result of `compute`. If `compute` raises, nothing is cached.

        Two threads that need the same new value may both compute it; one of the two results is kept.
        """
        found = self.find(key)
        return self.put(key, compute()) if found is None else found

    def _weigh_next(self) -> None:
        """Weigh the next value again. Weighing all would take longer with each one."""
        if not self._due:
            self._due = list(reversed(self._values.values()))
        self._weigh_again(self._due.pop())

    def _weigh_again(self, entry: _Entry[Value]) -> None:
        if entry.weight is not None:
            before, entry.weight = entry.weight, self._weigh(entry.value)
            self._weight += entry.weight - before

    def _shrink(self) -> None:
        while len(self._values) > self._max_size or (
            self._weight > self._max_weight and len(self._values) > 1
        ):
            _, entry = self._values.popitem(last=False)
            self._weight -= entry.weight or 0
            entry.drop()

    def clear(self) -> None:
        """Drop all values; the counts of hits and misses stay."""
        with self._lock:
            self._values.clear()
            self._due.clear()
            self._weight = 0

    def info(self) -> CacheInfo:
        """The counts since the start, and the current content."""
        with self._lock:
            for entry in self._values.values() if self._grow else ():
                self._weigh_again(entry)
            return CacheInfo(
                self._hits, self._misses, len(self._values), self._max_size, self._weight, self._max_weight
            )
