"""A bounded cache of computed values, by the key that each was computed from."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

Value = TypeVar("Value")


class CacheInfo(NamedTuple):
    """The counts of a cache so far, its content and its bounds."""

    hits: int
    misses: int
    size: int
    max_size: int
    weight: int
    max_weight: int


class Cache(Generic[Value]):
    """The most recently used values, at most `max_size` of them and `max_weight` in total; thread-safe.

    weigh  the current weight of a value, for example its size in bytes: values that grow are weighed again
           whenever another one comes. The newest value is kept even if it alone weighs more than
           `max_weight`.
    """

    def __init__(self, max_size: int, max_weight: int, weigh: Callable[[Value], int]) -> None:
        self._max_size, self._max_weight, self._weigh = max_size, max_weight, weigh
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._hits = self._misses = 0
        self._lock = threading.Lock()

    def find(self, key: Hashable) -> Value | None:
        """The value of `key`, if it is still cached."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                self._misses += 1
                return None
            self._values.move_to_end(key)
            self._hits += 1
            return found

    def put(self, key: Hashable, value: Value) -> Value:
        """Cache `value` under `key`; returns the cached value, which is an earlier one if there is one."""
        with self._lock:
            if (found := self._values.get(key)) is not None:
                return found
            self._values[key] = value
            self._shrink()
        return value

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """The value of `key`; without one, the result of `compute`. If `compute` raises, nothing is cached.

        Two threads that need the same new value may both compute it; one of the two results is kept.
        """
        found = self.find(key)
        return self.put(key, compute()) if found is None else found

    def _shrink(self) -> None:
        while len(self._values) > self._max_size:
            self._values.popitem(last=False)
        weights = [self._weigh(value) for value in self._values.values()]
        weight = sum(weights)
        for first in weights[:-1]:
            if weight <= self._max_weight:
                break
            self._values.popitem(last=False)
            weight -= first

    def clear(self) -> None:
        """Drop all values; the counts of hits and misses stay."""
        with self._lock:
            self._values.clear()

    def resize(self, max_size: int, max_weight: int) -> None:
        """Set new bounds."""
        with self._lock:
            self._max_size, self._max_weight = max_size, max_weight
            self._shrink()

    def info(self) -> CacheInfo:
        """The counts since the start, and the current content."""
        with self._lock:
            weight = sum(map(self._weigh, self._values.values()))
            return CacheInfo(
                self._hits, self._misses, len(self._values), self._max_size, weight, self._max_weight
            )
