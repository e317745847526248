"""The search for an item that an array does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from ..item_following import Brackets
from ..item_values import SPACE
from .positions import NestedPosition, may_repeat, position_after

_MAX_TRIES = 1_000
"""The most bytes that are tried in search of an item that is left; beyond it, none counts as left."""

_MAX_FORCED = 4_000
"""The most bytes between them of which there is no choice."""

_STEPS_OF_A_TRY = 700
"""What it takes to try a byte, in the steps of `contract.Work`."""

_MAX_HINTS = 500


class Hints:
    """What was found behind some bytes: it may be there again, though other bytes came before them."""

    def __init__(self) -> None:
        self._found: dict[bytes, bytes] = {}

    def get(self, data: bytes) -> bytes | None:
        """What to try first behind bytes."""
        return self._found.get(data)

    def add(self, data: bytes, rest: bytes) -> None:
        """Remember what was found behind bytes."""
        if len(self._found) >= _MAX_HINTS:
            self._found.clear()
        self._found[data] = rest


class Ahead:
    """The search for a text that can follow and repeats no item.

    data      the bytes before it
    matcher   the engine's, after them; None if the search has ended before
    position  after them
    found     what it has found then
    """

    def __init__(
        self,
        data: bytes = b"",
        matcher: Any = None,
        position: NestedPosition | None = None,
        hints: Hints | None = None,
        *,
        found: bool = False,
    ) -> None:
        self._data = data
        self._hints = hints
        self._found = found
        self._tries, self._forced = _MAX_TRIES, _MAX_FORCED
        self._beginning = None if position is None else (matcher, position)
        self._waiting: list[tuple[Any, NestedPosition, bytes, Iterator[int]]] = []
        self._path = b""

    def _wait(self, matcher: Any, position: NestedPosition, following: bytes) -> None:
        self._waiting.append((matcher, position, following, iter(_in_order(following))))

    def can_go_on(self, spend: Callable[[int], None]) -> bool:
        """Whether there is such a text; goes on where `spend` has interrupted it."""
        if self._beginning is not None:
            spend(_STEPS_OF_A_TRY)
            matcher, position = self._beginning
            self._beginning = None
            self._found = self._follows_hint(matcher, position)
            if not self._found:
                self._wait(matcher, position, matcher.next_bytes())
        while self._waiting and self._tries and self._forced and not self._found:
            spend(_STEPS_OF_A_TRY)
            self._try()
        return self._found

    def _follows_hint(self, matcher: Any, position: NestedPosition) -> bool:
        rest = self._hints.get(self._data) if self._hints is not None else None
        if rest is None or not matcher.fork().accept_bytes(rest):
            return False
        after = position_after(position, rest, Brackets(matcher, rest).open)
        return after is not None and not may_repeat(after)

    def _try(self) -> None:
        """Try one more byte."""
        matcher, position, choices, untried = self._waiting[-1]
        if len(choices) == 1:
            self._forced -= 1
        else:
            self._tries -= 1
        byte = next(untried, None)
        if byte is None:
            self._waiting.pop()
            self._path = self._path[:-1]
            return
        data = bytes((byte,))
        after = position_after(position, data, Brackets(matcher, data).open)
        if after is None:
            return
        if not may_repeat(after):
            self._found = True
            if self._hints is not None:
                self._hints.add(self._data, self._path + data)
        elif (following := matcher.fork()).accept_bytes(data):
            more = following.next_bytes()
            is_blank = byte in SPACE and position.text[:1] != b'"'
            if not is_blank or not more.strip(SPACE) or not _has_same(more, choices):
                self._wait(following, after, more)
                self._path += data


def _has_same(more: bytes, choices: bytes) -> bool:
    """Whether two sets of bytes differ in white space only."""
    return more.translate(None, SPACE) == choices.translate(None, SPACE)


@lru_cache(maxsize=128)
def _in_order(following: bytes) -> bytes:
    return bytes(byte for _, byte in sorted((_rank(byte), byte) for byte in following))


def _rank(byte: int) -> int:
    """First what ends something, then what goes on with it, last what does not change an item."""
    if byte in b'"]}':
        return 0
    if byte in SPACE:
        return 4
    if byte in b"\\\xff":
        return 3
    return 2 if byte in b",0+-.eE" else 1
