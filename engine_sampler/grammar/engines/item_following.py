"""What matchers share that remember the items of arrays whose items must differ."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...contract import spending
from ..program.rules import UNIQUE_MARK
from .following import FollowingMatcher, Position


class SearchAhead(Protocol):
    """A search for a text that can follow and repeats no item."""

    def can_go_on(self, spend: Callable[[int], None]) -> bool:
        """Whether there is one; goes on where `spend` has interrupted it."""
        ...


class Brackets:
    """Asks the engine about the brackets in bytes that follow `matcher`, of which it makes a fork when it is
    first needed: most bytes have none."""

    def __init__(self, matcher: Any, data: bytes) -> None:
        self._origin = matcher
        self._matcher: Any = None
        self._data = data
        self._done = 0

    def open(self, at: int) -> bool:
        """Whether the bracket at data[at] begins an array whose items must differ."""
        if self._matcher is None:
            self._matcher = self._origin.fork()
        self._matcher.accept_bytes(self._data[self._done : at + 1])
        self._done = at + 1
        return bool(self._matcher.fork().accept_bytes(UNIQUE_MARK))


class ItemsMatcher(FollowingMatcher[Position]):
    """A matcher that judges bytes by their position and by whether a text can follow them."""

    @abstractmethod
    def _begun(self, before: Any, data: bytes) -> tuple[Position | None, SearchAhead]:
        """The position after bytes that may follow the matcher `before`, and the search behind them."""

    @abstractmethod
    def fork(self) -> ItemsMatcher[Position]:
        """An independent copy."""

    def _judged(self, before: Any, data: bytes) -> Position | None:
        """The position after bytes that may follow the matcher `before`; None if no text may go on so."""
        after, ahead = self._begun(before, data)
        return after if ahead.can_go_on(spending(None)) else None

    def _after(self, data: bytes, before: Any, spend: Callable[[int], None]) -> Position | None:
        return self._judged(before, data)

    def validate(self, token_ids: Sequence[int]) -> int:
        """The number of leading tokens that could be accepted in turn; nothing changes."""
        other = self.fork()
        return next((n for n, token_id in enumerate(token_ids) if not other.accept(token_id)), len(token_ids))

    def next_bytes(self) -> bytes:
        """The bytes that may come next, ascending."""
        found: bytes = self.matcher.next_bytes()
        return bytes(byte for byte in found if self._judged(self.matcher, bytes((byte,))) is not None)
