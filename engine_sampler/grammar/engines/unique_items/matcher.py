"""The matcher of texts in which some arrays do not repeat an item."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ....base.json_cursor import JsonPlace, JsonScalar, characters_of
from ....contract import Work, spending
from ....tokenizer import Tokenizer
from ...program.byte_sets import first_bytes
from ...program.embedding import expressions
from ...program.expression import Expression
from ...program.rules import UNIQUE_MARK, Program
from ...schema.options import DEFAULTS
from ...schema.scalars.numbers import any_integer, any_number
from ...schema.scalars.texts import STRING
from ..following import FollowingMatcher, given_work
from .arrays import FRESH, Feed, UniqueItemsReading, continuing, has_few_rivals, may_repeat, signature, step
from .values import Values
from .vocabulary import Index, Mask, head_of, parts_of
from .ways_out import ENDLESS, leads_away, ways_out

_STEPS_OF_A_MASK, _STEPS_OF_A_BYTE, _STEPS_OF_A_TOKEN = 1000, 150, 700
"""What it takes to begin a mask, to follow a byte of tokens, and to try one, in the steps of
`contract.Work`."""

_AROUND_AN_ITEM = 2
"""The fewest bytes of a token around a whole item behind another one, but for the quote that it begins
with."""

_FREE = (STRING, *(kind(digits) for kind in (any_integer, any_number) for digits in (None, DEFAULTS.digits)))
"""The expressions of scalars to which there is no end, or none up to some digits."""

_BEGIN_SCALARS = sum(1 << byte for byte in b'"-0123456789')

_FREE_DIGITS = re.compile(rb"-?[1-9][0-9]{0,24}")

_MAX_KNOWN = 4096
"""The most places of an array whose ways out are remembered."""

Found = TypeVar("Found")
Steps = Generator[int, None, Found]
"""Something that takes work: it yields the steps of what it does next."""


class UniqueItems:
    """The arrays of a program whose items must differ, for a tokenizer.

    by_index   whether what an item may be depends on how many come before it
    """

    def __init__(self, program: Program, tokenizer: Tokenizer) -> None:
        self.by_index = program.indexed_items
        found = expressions(program)
        kinds = [_ends(found[one]) if one >= 0 else 0 for one in program.terminals]
        self._ends = np.array(kinds, np.uint8)
        """Of each terminal of strings or numbers 1 if there is no end of them, 2 if there may be; else 0."""
        self.tokenizer = tokenizer
        self.parts = parts_of(tokenizer)

    def is_free(self, place: JsonPlace, matcher: Any) -> bool:
        """Whether there is no end of scalars that may be what has begun where the engine's matcher is."""
        scalar = place.scalar
        if scalar is None or not (scalar.is_string or _FREE_DIGITS.fullmatch(scalar.text)):
            return False
        ends: int = (matcher.open_terminals() * self._ends).max()
        return ends == 1

    def matcher(self, matcher: Any) -> UniqueItemsMatcher:
        """A matcher beside an engine's one."""
        return UniqueItemsMatcher(matcher, self)


class UniqueItemsMatcher(FollowingMatcher[JsonPlace]):
    """A matcher of texts in which some arrays do not repeat an item; see `contract.BoundedMatcher`.

    matcher  the engine's matcher of the text
    bounded  whether that is
    """

    def __init__(
        self, matcher: Any, arrays: UniqueItems, positions: Sequence[JsonPlace] = (JsonPlace(),)
    ) -> None:
        super().__init__(matcher, arrays.tokenizer, positions)
        self._arrays, self._parts = arrays, arrays.parts
        self._search: tuple[JsonPlace, Steps[list[int]]] | None = None
        self._found: tuple[JsonPlace, list[int]] | None = None
        self._exhausted: dict[Hashable, Values | None] = {}
        """Places behind which all items were in an array, and those that it had."""
        self._classes: tuple[Any, dict[Any, list[bytes]]] = None, {}

    def __repr__(self) -> str:
        top = self._positions[-1].frame
        return f"<UniqueItemsMatcher of {self.matcher!r}, {len((top and top.items) or ())} items so far>"

    def fork(self) -> UniqueItemsMatcher:
        """An independent copy."""
        return UniqueItemsMatcher(self.matcher.fork(), self._arrays, self._positions)

    # --- Texts ---

    def _before(self) -> Any:
        """The engine's matcher before the call that it has just accepted."""
        found = self.matcher.fork()
        found.rollback(1)
        return found

    def _after(self, data: bytes, spend: Callable[[int], None]) -> JsonPlace | None:
        feed = Feed(self._before, data)
        place = None if UNIQUE_MARK in data else UniqueItemsReading(feed).read(self._positions[-1], data)
        if place is None:
            return None
        if not _done(self._ways_on(place, partial(feed.matcher_at, len(data))), spending(None)):
            return None
        if feed.marks:
            self.matcher.rollback(1)
            if not self.matcher.accept_bytes(feed.marked()):
                self.matcher.accept_bytes(data)
                return None
        return place

    def _may_follow(self, data: bytes) -> Steps[bool]:
        """Whether bytes may follow that the engine allows."""
        yield _STEPS_OF_A_TOKEN
        feed = Feed(self.matcher.fork, data)
        place = None if UNIQUE_MARK in data else UniqueItemsReading(feed).read(self._positions[-1], data)
        if place is None or (feed.marks and not _is_read(feed, data)):
            return False
        return bool((yield from self._ways_on(place, partial(feed.matcher_at, len(data)))))

    def _ways_on(
        self, place: JsonPlace, matcher: Callable[[], Any], count: int = 1, at_risk: bool = False
    ) -> Steps[list[bytes]]:
        """Up to `count` ways to go on from a place without repeating an item, or `ENDLESS`.

        matcher  makes the engine's matcher there
        at_risk  whether an item that is not remembered yet may be repeated
        """
        if not at_risk and not may_repeat(place):
            return [b""] * count
        memo, where = place.frame.memo, signature(place, self._arrays.by_index)
        had = self._exhausted.get(where)
        if had is not None and place.frame.items is not None and had <= place.frame.items:
            return []
        known: list[bytes] = memo.get(where, [])
        if known is ENDLESS:
            return known
        yield _STEPS_OF_A_TOKEN
        left = [one for one in known if leads_away(place, one)]
        if len(left) >= count:
            return left
        hint = known[0] if known else b""
        ways = yield from ways_out(place, matcher(), count, self._arrays.is_free, hint)
        if where is not None:
            if len(memo) >= _MAX_KNOWN:
                memo.clear()
                self._exhausted.clear()
            memo[where] = ways or known
            if not ways:
                self._exhausted[where] = place.frame.items
        return ways

    def validate(self, token_ids: Sequence[int]) -> int:
        """The number of leading tokens that could be accepted in turn; nothing changes."""
        other = self.fork()
        return next((n for n, token_id in enumerate(token_ids) if not other.accept(token_id)), len(token_ids))

    def next_bytes(self, work: Work | None = None) -> bytes:
        """The bytes that may come next, ascending."""
        found, spend = self.matcher.next_bytes(**given_work(work)), spending(work)
        possible = [bytes((byte,)) for byte in found]
        return b"".join(one for one in possible if _done(self._may_follow(one), spend))

    # --- Masks ---

    def _refused(self, words: Any, spend: Callable[[int], None]) -> list[int]:
        place = self._positions[-1]
        if self._found is None or self._found[0] is not place:
            if self._search is None or self._search[0] is not place:
                self._search = place, self._refusals(place, words.view(np.uint8).copy())
            self._found = place, _done(self._search[1], spend)
            self._search = None
        return self._parts.marked + self._found[1]

    def _refusals(self, place: JsonPlace, mask: Mask) -> Steps[list[int]]:
        """The tokens to remove from a mask."""
        yield _STEPS_OF_A_MASK
        if place.frame is None:
            return (yield from self._each(self._parts.openings.allowed(mask)))
        found = yield from self._at_boundaries(place, mask)
        if may_repeat(place):
            found += yield from self._repeating(place, mask)
        return found

    def _each(self, token_ids: Iterable[int]) -> Steps[list[int]]:
        """Those of some tokens that may not follow, each tried."""
        found = []
        for token_id in token_ids:
            if not (yield from self._may_follow(self._parts.texts[token_id])):
                found.append(token_id)
        return found

    def _at_boundaries(self, place: JsonPlace, mask: Mask) -> Steps[list[int]]:
        """The tokens to remove in which an item ends that the array does not have, and another one begins."""
        scalar, memo = place.scalar, place.frame.memo
        within = scalar is not None and scalar.is_string
        tokens = self._parts.boundaries[within]
        state = signature(place._replace(scalar=None), self._arrays.by_index), scalar is None, within
        endless: set[int] = memo.setdefault(state, set()) if state[0] is not None else set()
        chosen = [place for place in tokens.tokens.places(mask) if tokens.classes[place] not in endless]
        if scalar is not None and scalar.escape[-1:] == b"\\":
            ids = set(tokens.tokens.ids[chosen].tolist()).union(self._parts.shifted.allowed(mask))
            return (yield from self._each(sorted(ids)))
        if not chosen:
            return []
        if self._classes[0] is not place.frame:
            self._classes = place.frame, {}
        verdicts, refused = self._classes[1], []
        for at in chosen:
            token_id, number = int(tokens.tokens.ids[at]), tokens.classes[at]
            if tokens.several[number] and self._may_be_in(place, token_id):
                refused += yield from self._each((token_id,))
                continue
            if (state, number) not in verdicts:
                verdicts[state, number] = yield from self._of_class(place, token_id)
            verdict = verdicts[state, number]
            if verdict is ENDLESS and not tokens.several[number]:
                endless.add(number)
            elif not verdict:
                refused += yield from self._each((token_id,))
        return refused

    def _may_be_in(self, place: JsonPlace, token_id: int) -> bool:
        """Whether the item that ends in a token may be equal to another one in it."""
        scalar = place.scalar
        if scalar is None or place.frame.items is None:
            return True
        written = characters_of(scalar) if scalar.is_string else scalar.text
        return len(written) <= len(self._parts.texts[token_id]) - _AROUND_AN_ITEM

    def _of_class(self, place: JsonPlace, token_id: int) -> Steps[list[bytes]]:
        """Witnesses behind all tokens that end what has begun as this one does; [] if they depend on it."""
        yield _STEPS_OF_A_TOKEN
        data, scalar = self._parts.texts[token_id], place.scalar
        feed = Feed(self.matcher.fork, data)
        reading, begun, start = UniqueItemsReading(feed), place, 0
        if scalar is not None:
            frame, within = place.frame, scalar.is_string
            start = head_of(data, within) + within
            if place.is_key:
                begun = JsonPlace(reading.named(frame, FRESH), closed=True)
            else:
                begun = reading.ended(frame, FRESH, 0) or place
        after = reading.read(begun, data, start)
        if after is None or feed.marks or (after.scalar is not None and not after.scalar.is_string):
            return []
        if scalar is None or after.closed or after.frame is None:
            found = yield from self._ways_on(after, partial(feed.matcher_at, len(data)), 2)
        else:  # another item has begun, which may be equal to what ends in the token: not in two ways
            found = yield from self._ways_on(after, partial(feed.matcher_at, len(data)), 2, at_risk=True)
        return found if found is ENDLESS or len(found) > 1 else []

    def _repeating(self, place: JsonPlace, mask: Mask) -> Steps[list[int]]:
        """The tokens to remove behind which an item is still one that the array has, or ends as one."""
        tokens = self._index_at(place).among(mask)
        behind_backslash = place.scalar is not None and place.scalar.escape[-1:] == b"\\"
        escaped = self._parts.escaped.among(mask) if behind_backslash else tokens
        refused: list[int] = []
        remaining: list[tuple[bytes, JsonPlace, list[int]]] = []
        waiting: list[tuple[bytes, tuple[int, int], JsonPlace]] = [(b"", (0, 0), place)]
        while waiting:
            path, around, at = waiting.pop()
            choices = tokens.following(path, around) if path and not has_few_rivals(at) else None
            for byte in set(continuing(at)) if choices is None else choices:
                text = path + bytes((byte,))
                index = escaped if behind_backslash and text[:1] in b'"\\' else tokens
                beginning = index.beginning(text, around if path else index.all)
                if beginning is None:
                    continue
                yield _STEPS_OF_A_BYTE
                after = step(at, byte)
                if after is None:
                    refused += yield from self._repetitions(index.ids(beginning))
                elif may_repeat(after) and not _is_next_item(after, byte):
                    waiting.append((text, beginning, after))
                    if whole := index.whole(text, beginning):
                        remaining.append((text, after, whole))
        return refused + (yield from self._dead_ends(remaining))

    def _index_at(self, place: JsonPlace) -> Index:
        """The tokens among which those are that may repeat an item."""
        scalar, parts, matcher = place.scalar, self._parts, self.matcher
        if scalar is None:
            matcher = matcher.fork()
            if matcher.accept_bytes(b"1") and self._arrays.is_free(
                JsonPlace(scalar=JsonScalar(b"1")), matcher
            ):
                return parts.unnumbered
        if scalar is None or not scalar.is_string:
            return parts.unnumbered if self._arrays.is_free(place, matcher) else parts.between
        return parts.ending if self._arrays.is_free(place, self.matcher) else parts.within

    def _repetitions(self, token_ids: list[int]) -> Steps[list[int]]:
        """Those to remove of tokens in which the same item ends that an array has."""
        refused = yield from self._each(token_ids[:1])
        return token_ids if refused else (yield from self._each(token_ids[1:]))

    def _dead_ends(self, remaining: list[tuple[bytes, JsonPlace, list[int]]]) -> Steps[list[int]]:
        """Those to remove of tokens that are no whole item: if a longer one leads on, so does what it begins
        with."""
        refused: list[int] = []
        lead_on: set[bytes] = set()
        for text, place, token_ids in sorted(remaining, key=lambda one: -len(one[0])):
            if text in lead_on:
                continue
            data = self._parts.texts[token_ids[0]]
            feed = Feed(self.matcher.fork, data)
            if (yield from self._ways_on(place, partial(feed.matcher_at, len(data)))):
                lead_on.update(text[:end] for end in range(1, len(text)))
            else:
                refused += token_ids
        return refused


def _is_read(feed: Feed, data: bytes) -> bool:
    """Whether the engine reads bytes in which items are repeated."""
    feed.matcher_at(len(data))
    return feed.agrees


def _ends(expression: Expression) -> int:
    return 1 if expression in _FREE else 2 if first_bytes(expression) & _BEGIN_SCALARS else 0


def _is_next_item(place: JsonPlace, byte: int) -> bool:
    """Whether a comma has ended an item of an array whose items differ: the next one is another matter."""
    return byte == b","[0] and place.scalar is None and place.frame.items is not None


def _done(work: Steps[Found], spend: Callable[[int], None]) -> Found:
    """The result of some work, which may be continued after `spend` has interrupted it."""
    try:
        while True:
            spend(next(work))
    except StopIteration as end:
        result: Found = end.value
        return result
