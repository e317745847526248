"""What is remembered as long as there is room for it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """Values of a bounded size in all; those not used for longest are dropped.

    room   bytes
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """The value of `key`, if it is still there."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Remember a value that takes `size` bytes."""
        self._values[key] = value, size
        self._room -= size
        while self._room < 0 and len(self._values) > 1:
            _, (_, freed) = self._values.popitem(last=False)
            self._room += freed
