"""The text of one request, streamed: tokens in, text deltas out; bytes that are not certain yet are held
back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..base.calling import call_plugin
from ..base.errors import PluginFault, quoted
from ..base.forking import fork_safe
from ..contract import StopVerdict, TextMatch, TextMatcher
from ..tokenizer import Tokenizer
from ..tokenizer.pieces import unfinished_bytes
from .called_criteria import name_of
from .parts import RequestPart

if TYPE_CHECKING:
    from typing_extensions import Self

    from .request import Request

MAX_TRANSITIONS = 1 << 13
"""Transitions that a `Transducer` remembers before it starts over."""

MAX_REMEMBERED_BYTES = 256
"""The most bytes held back in a state that is remembered."""

MAX_HELD_BYTES = 1 << 16
"""The most bytes held back for matchers. Beyond it the oldest become certain, up to a whole character: they
can no longer be cut off, and a match that begins in them cuts the text that is still held back."""

MatchedEnds = tuple[tuple[int, StopVerdict], ...]
"""The ends that text matchers found in a token: (matcher's number, verdict), the earliest first."""


class State:
    """The state of a text: the bytes held back, of which the first `foreign` belong to the prompt, and the
    states of the matchers. The first `healed` bytes of the next token belong to the prompt, too.

    The effect of a token depends on nothing else, so it is computed once.
    """

    __slots__ = ("foreign", "healed", "held", "matcher_states", "transitions")

    def __init__(
        self, held: bytes, matcher_states: tuple[Hashable, ...], foreign: int = 0, healed: int = 0
    ) -> None:
        self.held = held
        self.matcher_states = matcher_states
        self.foreign = foreign
        self.healed = healed
        self.transitions: dict[int, Transition] = {}
        """By token id, as far as they are known."""

    @property
    def key(self) -> Hashable:
        """What makes it equal to another."""
        return self.held, self.matcher_states, self.foreign, self.healed


class LongState:
    """The state of a text that holds back too many bytes to be remembered: they are bytes `begin` to `end` of
    its detokenizer's log."""

    __slots__ = ("begin", "end", "matcher_states")

    transitions: ClassVar[Mapping[int, Transition]] = MappingProxyType({})
    foreign: ClassVar[int] = 0
    healed: ClassVar[int] = 0

    def __init__(self, begin: int, end: int, matcher_states: tuple[Hashable, ...]) -> None:
        self.begin, self.end = begin, end
        self.matcher_states = matcher_states


class Transition(NamedTuple):
    """The effect of one token.

    state    the state after it.
    delta    the text that becomes certain.
    matches  the ends that matchers found in it.
    """

    state: State | LongState
    delta: str
    matches: MatchedEnds


class _Reading(NamedTuple):
    """What the matchers make of a token: their states after it, the ends that they found in it, and how many
    bytes at the end of the text they may still cut off."""

    matcher_states: tuple[Hashable, ...]
    matches: MatchedEnds
    held: int


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
        self._states = {self.start.key: self.start}
        self._transitions = 0

    @property
    def source(self) -> tuple[Tokenizer, bool]:
        """The tokenizer, and `skip_special_tokens`."""
        return self._tokenizer, self._skip_special

    def started(self, held: bytes, foreign: int = 0, healed: int = 0) -> State:
        """The state that holds back `held`, of which the matchers have seen nothing."""
        state = State(held, self.start.matcher_states, foreign, healed)
        return state if len(held) > MAX_REMEMBERED_BYTES else self.remembered(state)

    def transition(self, state: State, token_id: int) -> Transition:
        """The effect of `token_id` in `state`."""
        known = state.transitions.get(token_id)
        return self._compute(state, token_id) if known is None else known

    def bytes_of(self, token_id: int) -> bytes:
        data = call_plugin("the tokenizer", self._tokenizer.text_bytes, token_id, self._skip_special)
        if not isinstance(data, bytes):
            raise PluginFault(f"the tokenizer failed: it gave {quoted(data)}, which is not bytes")
        return data

    def read(self, matcher_states: tuple[Hashable, ...], token_id: int, data: bytes, kept: int) -> _Reading:
        """Give the matchers, which are in `matcher_states`, one token and its bytes in the text, before which
        `kept` bytes are held back."""
        hidden = self._tokenizer.hidden_name(token_id, self._skip_special)
        states, matches, held = [], [], 0
        for number, (matcher, old) in enumerate(zip(self._matchers, matcher_states, strict=True)):
            new, match = call_plugin(name_of(matcher), advanced, matcher, old, data)
            states.append(new)
            held = max(held, call_plugin(name_of(matcher), held_by, matcher, new, kept + len(data)))
            if hidden and match is None:
                match = call_plugin(name_of(matcher), _at_special, matcher, hidden)
            if match is not None:
                verdict = StopVerdict(match.reason, cut=len(data) - match.text_end)
                matches.append((match.end, number, verdict))
        ends = tuple((number, verdict) for _, number, verdict in sorted(matches, key=lambda m: m[:2]))
        return _Reading(tuple(states), ends, held)

    def remembered(self, state: State) -> State:
        """The state that all requests share."""
        with self._lock:
            return self._known(state)

    def _compute(self, state: State, token_id: int) -> Transition:
        data = self.bytes_of(token_id)[state.healed :]
        reading = self.read(state.matcher_states, token_id, data, len(state.held))
        buffer, foreign = _continued(state.held, data, state.foreign)
        certain = 0 if foreign else _certain(buffer, 0, reading.held)
        after = State(buffer[certain:], reading.matcher_states, foreign)
        delta = _decoded(buffer[:certain])
        if len(after.held) > MAX_REMEMBERED_BYTES:
            return Transition(after, delta, reading.matches)
        with self._lock:
            transition = Transition(self._known(after), delta, reading.matches)
            state.transitions[token_id] = transition
        return transition

    def _known(self, state: State) -> State:
        """The known state that equals `state`, which becomes known if there is none. Called with the lock
        held."""
        if self._transitions >= MAX_TRANSITIONS:
            self._forget()
        self._transitions += 1
        return self._states.setdefault(state.key, state)

    def _forget(self) -> None:
        for state in self._states.values():
            state.transitions = {}
        self._states = {self.start.key: self.start}
        self._transitions = 0


shared_transducer = lru_cache(maxsize=64)(Transducer)
"""The `Transducer` of a tokenizer, `skip_special_tokens` and matchers, shared by all requests."""


class Detokenizer(RequestPart):
    """Decodes one request's text token by token.

    The deltas, together with what `close` adds, join to `Tokenizer.decode`, up to the end that a matcher
    found. A character that the prompt ends within is continued if the output completes it. Broken UTF-8
    becomes U+FFFD. Bytes that may still become a character, or that a matcher may still cut off, are held
    back, and no others, up to `MAX_HELD_BYTES` of them. Work per token does not depend on the length of the
    text, nor does memory per token: many bytes that are held back at once lie in a log, which the states
    before every token share.
    """

    __slots__ = (
        "_last_token",
        "_log",
        "_sent",
        "_states",
        "_step",
        "_taken",
        "_transducer",
        "deltas",
        "state",
    )

    def __init__(
        self, tokenizer: Tokenizer, skip_special_tokens: bool = True, matchers: Sequence[TextMatcher] = ()
    ) -> None:
        self._transducer = shared_transducer(tokenizer, bool(skip_special_tokens), tuple(matchers))
        self.state: State | LongState = self._transducer.start
        self.deltas: list[str] = []
        """The delta of every token, and what `close` added."""
        self._states: list[State | LongState] = []
        """The state before every token."""
        self._log = bytearray()
        """The bytes that were held back in a `LongState`. It ends with the newest of these states, or with
        the token after it."""
        self._last_token = -1
        self._sent = self._taken = 0
        """How many of the deltas `take` has returned: before the last step for which it was called, and in
        all."""
        self._step: int | None = None
        """The number of that step."""

    @property
    def text(self) -> str:
        """All text that is certain."""
        return "".join(self.deltas)

    def told(self) -> list[str]:
        """The deltas that stay, of which all text that is certain consists: a copy."""
        return self.deltas.copy()

    @property
    def held(self) -> bytes:
        """The bytes held back."""
        return self._held_in(self.state)

    def begin(self, prompt_token_ids: Sequence[int], healed: int = 0) -> None:
        """Continue the character that the prompt ends within, if it does; called before any token. The first
        `healed` bytes of that are the prompt's last."""
        held = _open_bytes(self._transducer.bytes_of, prompt_token_ids)
        if held or healed:
            self.state = self._transducer.started(held, len(held), healed)

    def use(self, matchers: Sequence[TextMatcher], *, anew: bool) -> None:
        """Have these matchers from now on; `anew`: from their start, else the present state is one of
        theirs."""
        former = self._transducer
        self._transducer = shared_transducer(*former.source, tuple(matchers))
        if anew and self._transducer is not former:
            self.state = self._transducer.started(self.held)

    def push(self, token_id: int) -> MatchedEnds:
        """Read a token; returns the ends that the matchers found in it."""
        state = self.state
        transition = state.transitions.get(token_id) or self._transition(state, token_id)
        self._states.append(state)
        self.deltas.append(transition.delta)
        self.state = transition.state
        self._last_token = token_id
        return transition.matches

    def take(self, step: int | None = None) -> str:
        """The text that has become certain since the last call; see `take_back` about `step`."""
        if step is None or step != self._step:
            self._sent = self._taken
            self._step = step
        deltas, sent = self.deltas, self._sent
        self._taken = len(deltas)
        return deltas[sent] if len(deltas) == sent + 1 else "".join(deltas[sent:])

    def take_back(self, step: int) -> None:
        """Count what was taken in the step of this number as not taken."""
        if self._step == step:
            self._taken = self._sent

    @property
    def taken(self) -> int:
        """The number of tokens whose text `take` has returned."""
        return self._taken

    def skip(self, count: int | None = None) -> None:
        """Count the text of the first `count` tokens as taken, by default all so far."""
        self._sent = self._taken = len(self.deltas) if count is None else count

    def close(self, cut: int = 0) -> None:
        """The text ends here; what was held back becomes certain, except for the last `cut` bytes.

        Only bytes that the last token made certain, or that are held back, are cut.
        """
        if not cut:
            if len(self.deltas) == len(self._states):  # else an interrupted call has done it
                self.deltas.append(_decoded(self.held[self.state.foreign :]))
            return
        before = self._states[-1]
        last = self._transducer.bytes_of(self._last_token)[before.healed :]
        data, foreign = _continued(self._held_in(before), last, before.foreign)
        data = data[foreign:]
        self.deltas[-1] = _decoded(data[: max(0, len(data) - cut)])

    def rollback(self, length: int) -> None:
        """Undo all tokens after the first `length`, and `close`, also those that were read by halves; text
        that `take` has returned stays returned."""
        if length < len(self._states):
            self.state = self._states[length]
        del self.deltas[length:]
        del self._states[length:]
        if self._log:
            past = chain((self.state,), reversed(self._states))
            del self._log[next((s.end for s in past if isinstance(s, LongState)), 0) :]
        self._sent, self._taken = min(self._sent, length), min(self._taken, length)

    def fork(self) -> Self:
        child = object.__new__(type(self))
        child._transducer, child.state = self._transducer, self.state
        child._last_token = self._last_token
        child._sent, child._taken, child._step = self._sent, self._taken, self._step
        child.deltas, child._states = self.deltas.copy(), self._states.copy()
        child._log = self._log.copy()
        return child

    def _held_in(self, state: State | LongState) -> bytes:
        return state.held if isinstance(state, State) else bytes(self._log[state.begin : state.end])

    def _transition(self, state: State | LongState, token_id: int) -> Transition:
        """The effect of `token_id` in `state`, the newest one; bytes that it holds back join the log."""
        if isinstance(state, LongState):
            return self._long_transition(state, token_id)
        transition = self._transducer.transition(state, token_id)
        after = transition.state
        if isinstance(after, LongState) or len(after.held) <= MAX_REMEMBERED_BYTES:
            return transition
        begin = len(self._log)
        self._log += after.held
        return transition._replace(state=LongState(begin, len(self._log), after.matcher_states))

    def _long_transition(self, state: LongState, token_id: int) -> Transition:
        log, data = self._log, self._transducer.bytes_of(token_id)
        reading = self._transducer.read(state.matcher_states, token_id, data, len(log) - state.begin)
        log += data
        certain = _certain(log, state.begin, reading.held)
        delta = _decoded(log[state.begin : certain])
        after: State | LongState
        if len(log) - certain > MAX_REMEMBERED_BYTES // 2:  # it must grow before it is copied again
            after = LongState(certain, len(log), reading.matcher_states)
        else:
            after = self._transducer.remembered(State(bytes(log[certain:]), reading.matcher_states))
        return Transition(after, delta, reading.matches)


def advanced(matcher: TextMatcher, state: Hashable, data: bytes) -> tuple[Hashable, TextMatch | None]:
    """`matcher.advance`, with a result of the types that its contract declares."""
    new, match = matcher.advance(state, data)
    hash(new)
    return new, _checked_match(match, len(data))


def _at_special(matcher: TextMatcher, name: bytes) -> TextMatch | None:
    """`matcher.at_special`, with a result of the type that its contract declares."""
    return _checked_match(matcher.at_special(name), 0)


def _checked_match(match: Any, length: int) -> TextMatch | None:
    """A match in the newest `length` bytes, as its contract declares it."""
    if match is None:
        return None
    if not isinstance(match, TextMatch):
        raise TypeError(f"it gave {quoted(match)}, which is not a TextMatch")
    end, text_end, reason = match
    if not (isinstance(end, int) and isinstance(text_end, int) and text_end <= length):
        raise TypeError(f"it gave a match with end={quoted(end)} and text_end={quoted(text_end)}")
    return TextMatch(end, text_end, plain_reason(reason))


def plain_reason(reason: Any) -> str | int | None:
    """A stop reason as a plain text, an integer or None."""
    if isinstance(reason, str):
        return str.__str__(reason)  # without what a subclass overrides
    if reason is None or isinstance(reason, int):
        return reason
    raise TypeError(f"it gave the reason {quoted(reason)}, allowed is a text, an integer or None")


def held_by(matcher: TextMatcher, state: Hashable, most: int) -> int:
    """`matcher.held`, which is at most the `most` bytes that are not certain yet. Once there are so many that
    older ones have been streamed, a matcher may still count these."""
    held = matcher.held(state)
    if not isinstance(held, int) or held < 0 or (most < held and most < MAX_HELD_BYTES):
        raise ValueError(f"it holds {quoted(held)} bytes back, allowed are 0 to {most}")
    return held


def _decoded(data: bytes | bytearray) -> str:
    return data.decode("utf-8", errors="replace")


def _certain(data: bytes | bytearray, begin: int, held: int) -> int:
    """The offset up to which data[begin:] is certain if matchers may still cut off its last `held` bytes."""
    held = max(held, unfinished_bytes(data))
    end = max(begin, len(data) - min(held, MAX_HELD_BYTES))
    return end if held <= MAX_HELD_BYTES else _character_boundary(data, begin, end)


def _character_boundary(data: bytes | bytearray, begin: int, end: int) -> int:
    """The greatest offset up to `end`, and from `begin` on, that is not within a character."""
    for offset in range(end, max(begin - 1, end - 4), -1):
        if data[offset] & 0xC0 != 0x80:
            return offset
    return end


def _open_bytes(bytes_of: Callable[[int], bytes], token_ids: Sequence[int]) -> bytes:
    """The bytes at the end of a text of tokens that may still become a character: at most 3. A token without
    text divides."""
    tail = b""
    for token_id in reversed(token_ids):
        data = bytes_of(token_id)
        tail = data + tail
        if not data or len(tail) >= 3:
            break
    return tail[len(tail) - unfinished_bytes(tail) :]


def _continued(held: bytes, data: bytes, foreign: int) -> tuple[bytes, int]:
    """Bytes held back with those after them, and how many at their beginning still belong to the prompt: the
    first `foreign` of them did. They go once it is certain that no character comes of them."""
    data = held + data
    if not foreign or unfinished_bytes(data) == len(data):
        return data, foreign
    size = 2 + (data[0] >= 0xE0) + (data[0] >= 0xF0)  # that its first byte announces
    is_character = data[:size].decode("utf-8", errors="ignore").encode() == data[:size]
    return data if is_character else data[foreign:], 0


# --- the texts of all requests of a step: the loops write `RequestEnd.attempt` out, since every call counts


def extend_texts(
    requests: Sequence[Request], streamed: Iterable[int], token_ids: Sequence[int], refused: Container[int]
) -> dict[int, MatchedEnds]:
    """Give the texts of the requests at `streamed` their tokens, except those `refused`; returns the ends
    found in them, by index."""
    ends_by_index: dict[int, MatchedEnds] = {}
    for i in streamed:
        if refused and i in refused:
            continue
        request = requests[i]
        try:
            ends = request.text.push(token_ids[i])  # type: ignore[union-attr]
        except BaseException as fault:
            request.leave_off("the text", fault, is_bounded=False)
            ends = ()
        if ends or not request.live:
            ends_by_index[i] = ends
    return ends_by_index


def take_texts(
    requests: Sequence[Request], streamed: Iterable[int], step: int, texts: list[str | None]
) -> list[int]:
    """Put the texts that have become certain in the step of this number in their places; returns the indices
    of the requests that have failed."""
    failed = []
    for i in streamed:
        request = requests[i]
        try:
            texts[i] = request.text.take(step)  # type: ignore[union-attr]
        except BaseException as fault:
            request.leave_off("the text", fault, is_bounded=False)
            texts[i] = ""
            failed.append(i)
    return failed
