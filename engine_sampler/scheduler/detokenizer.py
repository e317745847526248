"""The text of one request, streamed: tokens in, text deltas out; bytes that are not certain yet are held
back."""

from __future__ import annotations

import codecs
import threading
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ..contract import PluginFault, StopVerdict, TextMatch, TextMatcher, call_plugin, fork_safe, shown
from ..tokenizer import Tokenizer
from .called_criteria import name_of

MAX_TRANSITIONS = 1 << 13
"""Transitions that a `Transducer` remembers before it starts over."""

MAX_REMEMBERED_BYTES = 256
"""The most bytes held back in a state that is remembered."""

MatchedEnds = tuple[tuple[int, StopVerdict], ...]
"""The ends that text matchers found in a token: (matcher's number, verdict), the earliest first."""


class State:
    """The state of a text: the bytes held back, and the states of the matchers.

    The effect of a token depends on nothing else, so it is computed once.
    """

    __slots__ = ("held", "matcher_states", "transitions")

    def __init__(self, held: bytes, matcher_states: tuple[Hashable, ...]) -> None:
        self.held = held
        self.matcher_states = matcher_states
        self.transitions: dict[int, Transition] = {}
        """By token id, as far as they are known."""


class Transition(NamedTuple):
    """The effect of one token.

    state    the state after it.
    delta    the text that becomes certain.
    matches  the ends that matchers found in it.
    """

    state: State
    delta: str
    matches: MatchedEnds


class Transducer:
    """The states of all texts with the same tokenizer and matchers, remembered for all requests."""

    def __init__(
        self, tokenizer: Tokenizer, skip_special_tokens: bool, matchers: tuple[TextMatcher, ...]
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special_tokens
        self._matchers = matchers
        self._lock = fork_safe(threading.RLock())
        self.start = State(b"", tuple(matcher.start for matcher in matchers))
        self._states = {(self.start.held, self.start.matcher_states): self.start}
        self._transitions = 0

    def transition(self, state: State, token_id: int) -> Transition:
        """The effect of `token_id` in `state`."""
        known = state.transitions.get(token_id)
        return self._compute(state, token_id) if known is None else known

    def bytes_of(self, token_id: int) -> bytes:
        data = call_plugin("the tokenizer", self._tokenizer.text_bytes, token_id, self._skip_special)
        if not isinstance(data, bytes):
            raise PluginFault(f"the tokenizer failed: it gave {shown(data)}, which is not bytes")
        return data

    def _compute(self, state: State, token_id: int) -> Transition:
        data = self.bytes_of(token_id)
        matcher_states, matches = [], []
        for number, (matcher, old) in enumerate(zip(self._matchers, state.matcher_states, strict=True)):
            new, match = call_plugin(name_of(matcher), _advanced, matcher, old, data)
            matcher_states.append(new)
            if match is not None:
                verdict = StopVerdict(match.reason, cut=len(data) - match.text_end)
                matches.append((match.end, number, verdict))
        buffer = state.held + data
        held_by_matchers = [
            call_plugin(name_of(matcher), _held, matcher, state, len(buffer))
            for matcher, state in zip(self._matchers, matcher_states, strict=True)
        ]
        certain = len(buffer) - max([_unfinished(buffer), *held_by_matchers])
        return self._remembered(
            state,
            token_id,
            Transition(
                State(buffer[certain:], tuple(matcher_states)),
                _decoded(buffer[:certain]),
                tuple((number, verdict) for _, number, verdict in sorted(matches, key=lambda m: m[:2])),
            ),
        )

    def _remembered(self, state: State, token_id: int, transition: Transition) -> Transition:
        """`transition`, with an equal state that is known already in place of its own."""
        held, matcher_states = transition.state.held, transition.state.matcher_states
        if max(len(held), len(state.held)) > MAX_REMEMBERED_BYTES:
            return transition
        with self._lock:
            if self._transitions >= MAX_TRANSITIONS:
                self._forget()
            self._transitions += 1
            known = self._states.setdefault((held, matcher_states), transition.state)
            transition = transition._replace(state=known)
            state.transitions[token_id] = transition
        return transition

    def _forget(self) -> None:
        for state in self._states.values():
            state.transitions = {}
        self._states = {(self.start.held, self.start.matcher_states): self.start}
        self._transitions = 0


shared_transducer = lru_cache(maxsize=64)(Transducer)
"""The `Transducer` of a tokenizer, `skip_special_tokens` and matchers, shared by all requests."""


class Detokenizer:
    """Decodes one request's text token by token.

    The deltas, together with what `close` adds, join to `Tokenizer.decode`, up to the end that a matcher
    found. Broken UTF-8 becomes U+FFFD. Bytes that may still become a character, or that a matcher may still
    cut off, are held back, and no others. Work per token does not depend on the length of the text.
    """

    __slots__ = ("_last_token", "_sent", "_states", "_transducer", "deltas", "state")

    def __init__(
        self, tokenizer: Tokenizer, skip_special_tokens: bool = True, matchers: Sequence[TextMatcher] = ()
    ) -> None:
        self._transducer = shared_transducer(tokenizer, bool(skip_special_tokens), tuple(matchers))
        self.state = self._transducer.start
        self.deltas: list[str] = []
        """The delta of every token, and what `close` added."""
        self._states: list[State] = []
        """The state before every token."""
        self._last_token = -1
        self._sent = 0
        """How many of the deltas `take` has returned."""

    @property
    def text(self) -> str:
        """All text that is certain."""
        return "".join(self.deltas)

    def push(self, token_id: int) -> MatchedEnds:
        """Read a token; returns the ends that the matchers found in it."""
        state = self.state
        transition = state.transitions.get(token_id) or self._transducer.transition(state, token_id)
        self._states.append(state)
        self.deltas.append(transition.delta)
        self.state = transition.state
        self._last_token = token_id
        return transition.matches

    def take(self) -> str:
        """The text that has become certain since the last call."""
        deltas = self.deltas
        sent, self._sent = self._sent, len(deltas)
        return deltas[sent] if len(deltas) == sent + 1 else "".join(deltas[sent:])

    def skip(self) -> None:
        """Count all text so far as taken."""
        self._sent = len(self.deltas)

    def close(self, cut: int = 0) -> None:
        """The text ends here; what was held back becomes certain, except for the last `cut` bytes.

        Only bytes that the last token made certain, or that are held back, are cut.
        """
        if not cut:
            self.deltas.append(_decoded(self.state.held))
            return
        data = self._states[-1].held + self._transducer.bytes_of(self._last_token)
        self.deltas[-1] = _decoded(data[: max(0, len(data) - cut)])

    def rollback(self, n: int) -> None:
        """Undo the last n tokens; text that `take` has returned stays returned."""
        if n:
            self.state = self._states[-n]
            del self._states[-n:], self.deltas[-n:]
        self._sent = min(self._sent, len(self.deltas))

    def fork(self) -> Detokenizer:
        """An independent copy."""
        child = object.__new__(Detokenizer)
        child._transducer, child.state = self._transducer, self.state
        child._last_token, child._sent = self._last_token, self._sent
        child.deltas, child._states = self.deltas.copy(), self._states.copy()
        return child


def _advanced(matcher: TextMatcher, state: Hashable, data: bytes) -> tuple[Hashable, TextMatch | None]:
    """`matcher.advance`, with a result of the types that its contract declares."""
    new, match = matcher.advance(state, data)
    hash(new)
    if match is None:
        return new, None
    if not isinstance(match, TextMatch):
        raise TypeError(f"it gave {shown(match)}, which is not a TextMatch")
    end, text_end, reason = match
    if not (isinstance(end, int) and isinstance(text_end, int) and text_end <= len(data)):
        raise TypeError(f"it gave a match with end={shown(end)} and text_end={shown(text_end)}")
    return new, TextMatch(end, text_end, plain_reason(reason))


def plain_reason(reason: Any) -> str | int | None:
    """A stop reason as a plain text, an integer or None."""
    if isinstance(reason, str):
        return str.__str__(reason)  # without what a subclass overrides
    if reason is None or isinstance(reason, int):
        return reason
    raise TypeError(f"it gave the reason {shown(reason)}, allowed is a text, an integer or None")


def _held(matcher: TextMatcher, state: Hashable, most: int) -> int:
    """`matcher.held`, which is at most all bytes that are not certain yet."""
    held = matcher.held(state)
    if not isinstance(held, int) or not 0 <= held <= most:
        raise ValueError(f"it holds {shown(held)} bytes back, allowed are 0 to {most}")
    return held


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _unfinished(data: bytes) -> int:
    """How many bytes at the end of `data` may still become a character."""
    tail = data[-3:]
    return len(tail) - codecs.utf_8_decode(tail, "replace", False)[1]
