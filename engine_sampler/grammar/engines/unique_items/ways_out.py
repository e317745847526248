"""The search for bytes behind which a text can no longer repeat an item."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from ....base.json_cursor import SPACE, JsonPlace
from ...program.rules import MAX_UNIQUE_ITEMS, UNIQUE_MARK
from .arrays import Feed, UniqueItemsReading, continuing, may_repeat

_MAX_TRIES = 4000
"""The most bytes that are tried; beyond it, there is no way out."""

_STEPS_OF_A_TRY = 500
"""What it takes to try a byte, in the steps of `contract.Work`."""

_FEW = 20
"""From so many bytes on that may follow in a string, it is counted how many strings are left."""

_OTHER_BYTES = bytes(byte for byte in range(256) if not 0x20 <= byte < 0x7F or byte in b'"\\')
"""Those that do not stand for one character in a string."""

ENDLESS = [b""]
"""In place of ways out: more items are left than an array may have."""


def leads_away(place: JsonPlace, way: bytes) -> bool:
    """Whether bytes that are known to be able to follow still lead to no item that is remembered."""
    after = UniqueItemsReading().read(place, way)
    return after is not None and not may_repeat(after)


def ways_out(
    place: JsonPlace, matcher: Any, count: int, is_free: Callable[[JsonPlace, Any], bool], hint: bytes
) -> Generator[int, None, list[bytes]]:
    """Up to `count` ways out behind a place, none of which begins as another one, or `ENDLESS`; yields the
    steps that it takes.

    matcher  the engine's, at the place
    is_free  of a place and the engine's matcher: whether there is no end of scalars that may be what has
             begun
    hint     where to begin: what was found before, with fewer items
    """
    ways: list[bytes] = []
    waiting = [(b"", matcher, place, _choices(place, matcher, hint[:1]))]
    tries = 0
    if is_free(place, matcher) or (yield from _is_endless(place, matcher)):
        return ENDLESS
    while waiting and tries < _MAX_TRIES and len(ways) < count:
        yield _STEPS_OF_A_TRY
        path, before, at, choices = waiting[-1]
        byte = next(choices, None)
        if byte is None:
            waiting.pop()
            continue
        tries += 1
        data = bytes((byte,))
        feed = Feed(before.fork, data)
        after = UniqueItemsReading(feed).read(at, data)
        if after is None:
            continue
        following = feed.matcher_at(1) if feed.marks or may_repeat(after) else None
        if not feed.agrees:
            continue
        path += data
        if not may_repeat(after):
            ways.append(path)
            continue
        if is_free(after, following) or (byte in b'"' and (yield from _is_endless(after, following))):
            return ENDLESS
        next_hint = hint[len(path) : len(path) + 1] if hint.startswith(path) else b""
        waiting.append((path, following, after, _choices(after, following, next_hint)))
    return ways


def _is_endless(place: JsonPlace, matcher: Any) -> Generator[int, None, bool]:
    """Whether more strings may be what has begun than an array has items: they differ in two characters."""
    if place.scalar is None or not place.scalar.is_string or place.scalar.escape:
        return False
    following = matcher.next_bytes().translate(None, _OTHER_BYTES)
    left = MAX_UNIQUE_ITEMS + 1
    while len(following) >= _FEW and left > 0:
        yield _STEPS_OF_A_TRY
        after = matcher.fork()
        after.accept_bytes(following[:1])
        following, count = following[1:], len(after.next_bytes().translate(None, _OTHER_BYTES))
        if count < _FEW:
            return False
        left -= count
    return left <= 0


def _choices(place: JsonPlace, matcher: Any, hint: bytes) -> Iterator[int]:
    """The bytes to try behind a place, the most promising ones first, or from `hint` on in turn."""
    following = matcher.next_bytes().replace(UNIQUE_MARK, b"")
    scalar = place.scalar
    if scalar is not None and scalar.is_string:
        others = following.translate(None, continuing(place))
        ordered = others[-2:] + bytes(_sorted(following.translate(None, others)))
    else:
        ordered = bytes(_sorted(following.translate(None, SPACE) or following))
    at = max(ordered.find(hint), 0)
    return iter(ordered[at:] + ordered[:at])


def _sorted(following: bytes) -> list[int]:
    return [byte for _, byte in sorted((_rank(byte), byte) for byte in following)]


def _rank(byte: int) -> int:
    """First what begins or goes on with something, last what ends it or stands for something else."""
    if byte in b"\\":
        return 3
    return 2 if byte in b"],}0-+.eE" else 1
