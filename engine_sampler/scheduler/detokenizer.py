"""Text of one request, streamed: tokens in, deltas out, what is not certain yet held back."""

from __future__ import annotations

import codecs
import threading
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..contract import StopVerdict, TextMatcher
from ..tokenizer import Tokenizer

MOST_STEPS = 1 << 13
"""Steps that a `Reading` remembers before it begins anew."""

MOST_HELD = 256
"""Bytes held back at a place that is remembered."""


class Place:
    """Where a text is: the bytes that are held back, and the states of the matchers.

    What a token does from here follows from that alone, so it is worked out once.
    """

    __slots__ = ("held", "states", "steps")

    def __init__(self, held: bytes, states: tuple[Hashable, ...]) -> None:
        self.held = held
        self.states = states
        self.steps: dict[int, Move] = {}
        """By token id, as far as known."""


class Move(NamedTuple):
    """What one token does.

    place    where it leads.
    delta    the text that becomes certain.
    matches  (matcher's number, verdict) of every matcher that finds an end in it, the earliest first.
    """

    place: Place
    delta: str
    matches: tuple[tuple[int, StopVerdict], ...]


class Reading:
    """How tokens are read, remembered for all requests with the same tokenizer and matchers."""

    def __init__(
        self, tokenizer: Tokenizer, skip_special_tokens: bool, matchers: tuple[TextMatcher, ...]
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special_tokens
        self._matchers = matchers
        self._lock = threading.Lock()
        self.start = Place(b"", tuple(matcher.start for matcher in matchers))
        self._places = {(self.start.held, self.start.states): self.start}
        self._steps = 0

    def move(self, place: Place, token_id: int) -> Move:
        """What `token_id` does behind `place`."""
        known = place.steps.get(token_id)
        return self._work_out(place, token_id) if known is None else known

    def bytes_of(self, token_id: int) -> bytes:
        return self._tokenizer.text_bytes(token_id, self._skip_special)

    def _work_out(self, place: Place, token_id: int) -> Move:
        data = self.bytes_of(token_id)
        states, matches = [], []
        for number, (matcher, state) in enumerate(zip(self._matchers, place.states, strict=True)):
            state, match = matcher.advance(state, data)
            states.append(state)
            if match is not None:
                verdict = StopVerdict(match.reason, cut=len(data) - match.text_end)
                matches.append((match.end, number, verdict))
        buffer = place.held + data
        held = max([_unfinished(buffer), *(m.held(s) for m, s in zip(self._matchers, states, strict=True))])
        certain = len(buffer) - held
        return self._remembered(
            place,
            token_id,
            Move(
                Place(buffer[certain:], tuple(states)),
                _decoded(buffer[:certain]),
                tuple((number, verdict) for _, number, verdict in sorted(matches, key=lambda m: m[:2])),
            ),
        )

    def _remembered(self, place: Place, token_id: int, move: Move) -> Move:
        """`move`, with the place that is known already if one is like its own."""
        held, states = move.place.held, move.place.states
        if max(len(held), len(place.held)) > MOST_HELD:
            return move
        with self._lock:
            if self._steps >= MOST_STEPS:
                self._forget()
            self._steps += 1
            move = move._replace(place=self._places.setdefault((held, states), move.place))
            place.steps[token_id] = move
        return move

    def _forget(self) -> None:
        for place in self._places.values():
            place.steps = {}
        self._places = {(self.start.held, self.start.states): self.start}
        self._steps = 0


reading = lru_cache(maxsize=64)(Reading)
"""The shared `Reading` of a tokenizer, `skip_special_tokens` and matchers."""


class TextStream:
    """Decodes token by token. The deltas, with what `close` adds, join to `Tokenizer.decode`, as far as the
    matchers found no end.

    Broken UTF-8 becomes U+FFFD; bytes that may still become a character, or be cut off by a matcher, wait,
    and no others. Work per token does not depend on the length of the text.
    """

    __slots__ = ("_last", "_places", "_reading", "pieces", "place")

    def __init__(
        self, tokenizer: Tokenizer, skip_special_tokens: bool = True, matchers: Sequence[TextMatcher] = ()
    ) -> None:
        self._reading = reading(tokenizer, bool(skip_special_tokens), tuple(matchers))
        self.place = self._reading.start
        self.pieces: list[str] = []
        """The delta of every token, and what `close` added."""
        self._places: list[Place] = []
        """Where the text was before every token."""
        self._last = -1

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def push(self, token_id: int) -> tuple[tuple[int, StopVerdict], ...]:
        """Read a token; the matchers' verdicts, the earliest first."""
        place = self.place
        move = place.steps.get(token_id) or self._reading.move(place, token_id)
        self._places.append(place)
        self.pieces.append(move.delta)
        self.place = move.place
        self._last = token_id
        return move.matches

    def close(self, cut: int = 0) -> None:
        """The text ends here; what was held back is certain, but for the last `cut` bytes.

        Only what has become certain with the last token, or is held back, is cut.
        """
        if not cut:
            self.pieces.append(_decoded(self.place.held))
            return
        data = self._places[-1].held + self._reading.bytes_of(self._last)
        self.pieces[-1] = _decoded(data[: max(0, len(data) - cut)])

    def rollback(self, n: int) -> None:
        """Forget the last n tokens."""
        if n:
            self.place = self._places[-n]
            del self._places[-n:], self.pieces[-n:]

    def fork(self) -> TextStream:
        child = object.__new__(TextStream)
        child._reading, child.place, child._last = self._reading, self.place, self._last
        child.pieces, child._places = self.pieces.copy(), self._places.copy()
        return child


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _unfinished(data: bytes) -> int:
    """How many bytes at the end of `data` may still become a character."""
    tail = data[-3:]
    return len(tail) - codecs.utf_8_decode(tail, "replace", False)[1]
