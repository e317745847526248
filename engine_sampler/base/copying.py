"""Copies of what holds the state of a text."""

from __future__ import annotations

from typing import Any


class ForkedByCopy:
    """What `copy.copy` and `copy.deepcopy` fork: attributes that were copied one by one would share state."""

    __slots__ = ()

    def fork(self) -> Any:
        """An independent copy."""
        raise NotImplementedError

    def __copy__(self) -> Any:
        return self.fork()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.fork()
