"""`BytewiseLanguage`: a constraint of one's own, from what one byte does to a text."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.forking import fork_safe
from .constraints import Compiled
from .matchers import bitmask_words, is_bounded, unpack_bitmask
from .work import UnfinishedError, Work, spending

if TYPE_CHECKING:
    from ..tokenizer import Tokenizer

MASK_BYTES, FEWEST_MASKS = 4 << 20, 16
"""How much memory the masks of a language take, and how many are kept in any case."""

MOST_WALKS, MOST_FORCED = 16, 64
STEPS_PER_BYTE = 50
"""Work of one `read`, which takes about a microsecond."""

ENDED = object()
"""The state after EOS."""


class BytewiseLanguage(ABC):
    """A language that is read byte by byte. An object of a subclass is registered as a grammar.

        class Even(BytewiseLanguage):
            start = 0

            def read(self, state, byte):
                return 1 - state

            def may_end(self, state):
                return state == 0

    start  the state of the empty text. A state is hashable, never changed, and not None; equal states have
           the same future.

    Masks are found by walking the tokens in the order of their bytes, kept by state in bounded memory, and
    bounded in time: a scheduler postpones a request whose mask takes longer than a step may.
    """

    start: Hashable

    @abstractmethod
    def read(self, state: Any, byte: int) -> Any:
        """The state after one more byte; None if no text of the language continues so. Nothing looks ahead:
        every state that this gives must have a continuation to an end."""

    @abstractmethod
    def may_end(self, state: Any) -> bool:
        """Whether the text may end here."""

    def within(self, tokenizer: Tokenizer) -> Any:
        """What has a `matcher()` of a syntax that texts must also have, such as
        `Grammar.from_lark(SYNTAX).compile(tokenizer)`; by default None. Together they must leave a token
        wherever the text may not end."""
        return None

    def compile(self, tokenizer: Tokenizer) -> CompiledLanguage:
        """The language for a tokenizer; that for the last one is kept."""
        kept = vars(self).get("_compiled")
        if kept is None or kept.tokenizer is not tokenizer:
            kept = vars(self)["_compiled"] = CompiledLanguage(self, tokenizer)
        return kept

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_compiled"}


class CompiledLanguage(Compiled):
    """A `BytewiseLanguage` for one tokenizer, shared by its matchers, which may be on several threads."""

    def __init__(self, language: BytewiseLanguage, tokenizer: Tokenizer) -> None:
        self.language, self.tokenizer = language, tokenizer
        self.syntax = language.within(tokenizer)
        self.eos = frozenset(tokenizer.eos_token_ids)
        silent = self.eos | frozenset(tokenizer.special_token_ids)
        spelled = [(piece, i) for i, piece in enumerate(tokenizer.token_bytes) if piece and i not in silent]
        spelled.sort()
        self.pieces = [piece for piece, _ in spelled]
        self.ids = np.array([i for _, i in spelled], np.int64)
        self.shared = [0, *map(_common, self.pieces, self.pieces[1:])]
        """How many bytes each piece has in common with the one before."""
        self._words = bitmask_words(len(tokenizer))
        self._most_masks = max(FEWEST_MASKS, MASK_BYTES // (4 * self._words))
        self._masks: OrderedDict[Any, np.ndarray] = OrderedDict()
        self._walks: OrderedDict[Any, _Walk] = OrderedDict()
        self._lock = fork_safe(threading.Lock())

    def matcher(self) -> BytewiseMatcher:
        syntax = None if self.syntax is None else self.syntax.matcher()
        return BytewiseMatcher(self, [self.language.start], syntax)

    def mask(self, state: Any, work: Work | None = None) -> np.ndarray:
        """int32 [words]: the tokens that may follow in a state, without regard to the syntax."""
        with self._lock:
            if state in self._masks:
                self._masks.move_to_end(state)
                return self._masks[state]
            walk = self._walks.pop(state, None) or _Walk(self, state)
        try:
            walk.finish(spending(work))
        except UnfinishedError:
            self._keep(self._walks, state, walk, MOST_WALKS)
            raise
        mask = self._packed(walk.allowed, state)
        self._keep(self._masks, state, mask, self._most_masks)
        return mask

    def _keep(self, cache: OrderedDict[Any, Any], state: Any, value: Any, most: int) -> None:
        with self._lock:
            cache[state] = value
            if len(cache) > most:
                cache.popitem(last=False)

    def _packed(self, allowed: Sequence[int], state: Any) -> np.ndarray:
        bits = np.zeros(32 * self._words, bool)
        bits[self.ids[allowed]] = True
        bits[list(self.eos)] = state is ENDED or self.language.may_end(state)
        return np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)


class _Walk:
    """The pieces that may follow in a state, found one after another; what shares a refused beginning is
    skipped.

    allowed  their numbers so far, in the order of their bytes.
    """

    def __init__(self, compiled: CompiledLanguage, state: Any) -> None:
        self.allowed: list[int] = []
        self._compiled = compiled
        self._path = [state]
        """The states before and after each byte of the last piece, up to one that is refused."""
        self._at = len(compiled.pieces) if state is ENDED else 0

    def finish(self, spend: Callable[[int], None]) -> None:
        pieces, shared, path = self._compiled.pieces, self._compiled.shared, self._path
        read = self._compiled.language.read
        while self._at < len(pieces):
            piece = pieces[self._at]
            del path[shared[self._at] + 1 :]
            spend(STEPS_PER_BYTE * (len(piece) + 1 - len(path)))
            for byte in piece[len(path) - 1 :]:
                after = read(path[-1], byte)
                if after is None:
                    self._at = _end_of(pieces, piece[: len(path)], self._at)
                    break
                path.append(after)
            else:
                self.allowed.append(self._at)
                self._at += 1


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two pieces have in common, where the first comes before the other in order."""
    return next((at for at, byte in enumerate(one) if byte != other[at]), len(one))


def _end_of(pieces: Sequence[bytes], beginning: bytes, at: int) -> int:
    """The number of the first piece behind those with this beginning."""
    beginning = beginning.rstrip(b"\xff")
    if not beginning:
        return len(pieces)
    return bisect_left(pieces, beginning[:-1] + bytes([beginning[-1] + 1]), at)


class BytewiseMatcher:
    """One text of a `BytewiseLanguage`: a `BoundedMatcher`."""

    bounded = True

    def __init__(self, compiled: CompiledLanguage, states: list[Any], syntax: Any) -> None:
        self.compiled = compiled
        self._states = states
        """The state at the beginning, and after each accept."""
        self._syntax = syntax

    def fill_bitmask(self, bitmask: Any, row: int = 0, work: Work | None = None) -> None:
        mask = self.compiled.mask(self._states[-1], work)
        if self._syntax is None:
            bitmask[row, : len(mask)] = mask
        else:
            self._syntax.fill_bitmask(bitmask, row, **self._bounds(work))
            bitmask[row, : len(mask)] &= mask
        bitmask[row, len(mask) :] = 0

    def accept(self, token_id: int, work: Work | None = None) -> bool:
        compiled, state = self.compiled, self._states[-1]
        if not 0 <= token_id < len(compiled.tokenizer) or state is ENDED:
            return False
        if token_id in compiled.eos:
            after = ENDED if compiled.language.may_end(state) else None
        else:
            is_special = token_id in compiled.tokenizer.special_token_ids
            piece = b"" if is_special else compiled.tokenizer.token_bytes[token_id]
            spending(work)(STEPS_PER_BYTE * len(piece))
            after = self._read(piece) if piece else None
        return self._advance(after, "accept", token_id, **self._bounds(work))

    def accept_bytes(self, data: bytes) -> bool:
        return self._advance(self._read(data), "accept_bytes", data)

    def rollback(self, n: int) -> None:
        if not 0 <= n < len(self._states):
            raise ValueError(f"n={n} is not allowed: {len(self._states) - 1} accepts can be undone")
        if self._syntax is not None:
            self._syntax.rollback(n)
        del self._states[len(self._states) - n :]

    def fork(self) -> BytewiseMatcher:
        syntax = None if self._syntax is None else self._syntax.fork()
        return BytewiseMatcher(self.compiled, self._states.copy(), syntax)

    def is_accepting(self) -> bool:
        state = self._states[-1]
        may_end = state is not ENDED and self.compiled.language.may_end(state)
        return may_end and (self._syntax is None or bool(self._syntax.is_accepting()))

    def is_terminated(self) -> bool:
        return self._states[-1] is ENDED

    def validate(self, token_ids: Any) -> int:
        trial = self.fork()
        return next((i for i, token_id in enumerate(token_ids) if not trial.accept(token_id)), len(token_ids))

    def forced_tokens(self, *, work: Work | None = None) -> list[int]:
        trial, size = self.fork(), len(self.compiled.tokenizer)
        forced: list[int] = []
        bitmask = np.zeros((1, bitmask_words(size)), np.int32)
        while not trial.is_terminated() and len(forced) < MOST_FORCED:
            trial.fill_bitmask(bitmask, work=work)
            allowed = np.flatnonzero(unpack_bitmask(bitmask[0], size)).tolist()
            if len(allowed) != 1 or not trial.accept(allowed[0], work):
                break
            forced += allowed
        return forced

    def _read(self, data: bytes) -> Any:
        """The state after `data`, None if it is refused."""
        state = self._states[-1]
        for byte in data if state is not ENDED else ():
            state = self.compiled.language.read(state, byte)
            if state is None:
                break
        return None if state is ENDED else state

    def _advance(self, after: Any, method: str, *arguments: Any, **bounds: Any) -> bool:
        """Go on to a state if it is one, and if the syntax accepts the same."""
        if after is None:
            return False
        if self._syntax is not None and not getattr(self._syntax, method)(*arguments, **bounds):
            return False
        self._states.append(after)
        return True

    def _bounds(self, work: Work | None) -> dict[str, Any]:
        """How the syntax is told of the work that it may do."""
        return {"work": work} if work is not None and is_bounded(self._syntax) else {}
