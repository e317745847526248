"""The grammar of one request: its matcher, and whether the last mask filled is still valid."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np

from ..contract import INTERRUPTIONS, bitmask_words
from ..grammar.engines.native import Work, fills_within
from ..grammar.errors import UnfinishedError
from ..grammar.limits import REQUEST_WORK

_MOST_FORCED = 1 << 16
"""The most forced tokens that are taken from a matcher at once."""


class Constraint:
    """Holds a request's text to a language.

    matcher     any object with the methods of `contract.Matcher`; what it raises is raised here.
    mask_ready  whether the last mask filled is that of the next token.
    deferred    whether the step must leave out the request: its mask or accept did not finish.
    turn, short_turns  see `masks.Turns`.
    """

    __slots__ = (
        "_accepted",
        "_before",
        "_has_eos",
        "_in_call",
        "_words",
        "deferred",
        "mask_ready",
        "matcher",
        "short_turns",
        "turn",
    )

    def __init__(self, matcher: Any, vocab_size: int, has_eos: bool) -> None:
        self.matcher = matcher
        self.mask_ready = self.deferred = False
        self.turn = self.short_turns = 0
        self._words = bitmask_words(vocab_size)
        self._has_eos = has_eos
        self._accepted = 0
        """How many tokens the matcher has been given."""
        self._before: int | None = getattr(matcher, "accepted_calls", None)
        """How many calls it had accepted before, if it is one of our own, which know."""
        self._in_call = False
        """Whether it is being changed."""

    def mask(self) -> np.ndarray:
        """The mask of the next token, int32 [ceil(vocab / 32)]."""
        bitmask = np.zeros((1, self._words), np.int32)
        self.fill(bitmask.view())
        return bitmask[0]

    def fill(self, bitmask: np.ndarray) -> None:
        """Write the mask of the next token to `bitmask`, int32 [1, words]."""
        self.matcher.fill_bitmask(bitmask, 0)

    def accept(self, token_id: int, work: Work | None = None) -> bool:
        """Accept the next token; False if it is refused, or if `work` is too little: `deferred` is then set,
        and nothing has changed."""
        self._in_call = True
        if work is not None and fills_within(self.matcher):
            accepted = self._accept_within(token_id, work)
        else:
            self.mask_ready = self.deferred = False
            accepted = bool(self.matcher.accept(token_id))
        self._accepted += accepted
        self._in_call = False
        return accepted

    def _accept_within(self, token_id: int, work: Work) -> bool:
        """`accept`, and what `has_ended` needs after it."""
        try:
            accepted: bool = self.matcher.accept(token_id, work)
        except UnfinishedError:
            self.deferred = True
            return False
        if accepted and not self._has_eos and self.matcher.is_accepting():
            try:
                self.matcher.fill_within(np.zeros((1, self._words), np.int32), 0, work)
            except UnfinishedError:
                self.matcher.rollback(1)
                self.deferred = True
                return False
        self.mask_ready = False
        self.short_turns = 0
        return accepted

    def has_ended(self) -> bool:
        """Whether the text is over: EOS came, or the vocabulary has no EOS and no token can follow."""
        if self.matcher.is_terminated():
            return True
        if self._has_eos or not self.matcher.is_accepting():
            return False
        return not self.mask().any()

    def may_have_ended(self) -> bool:
        """Whether `has_ended` is True or raises: the stop checks must run then."""
        try:
            return self.has_ended()
        except INTERRUPTIONS:
            raise
        except BaseException:
            return True

    def forced_tokens(self) -> list[int]:
        """The tokens about which the grammar leaves no choice; [] for a matcher without this method, and if
        finding them takes too long."""
        if fills_within(self.matcher):
            try:
                return self.matcher.forced_tokens(work=Work(REQUEST_WORK, REQUEST_WORK))
            except UnfinishedError:
                return []
        forced = getattr(self.matcher, "forced_tokens", None)
        tokens = () if forced is None else itertools.islice(forced() or (), _MOST_FORCED)
        return [operator.index(token_id) for token_id in tokens]

    def rollback(self, n: int) -> None:
        """Undo the last n tokens."""
        self.mask_ready = False
        if n:
            self._in_call = True
            self.matcher.rollback(n)
            self._accepted -= n
            self._in_call = False

    def settle(self, length: int) -> None:
        """Go back to the first `length` tokens after a call that was interrupted, perhaps within the matcher.

        Our own matchers know how many they have accepted, whatever happens; another one that was interrupted
        within a call cannot be relied on, and raises `RuntimeError`.
        """
        self.mask_ready = self.deferred = False
        if self._before is not None:
            self.matcher.rewind(self._before + length)
        elif self._in_call:
            raise RuntimeError("the matcher was interrupted while it changed")
        elif self._accepted > length:
            self.rollback(self._accepted - length)
        self._accepted, self._in_call = length, False

    def fork(self) -> Constraint:
        """An independent copy."""
        child = object.__new__(Constraint)
        child._has_eos, child._words = self._has_eos, self._words
        child.mask_ready = child.deferred = False
        child.turn, child.short_turns = self.turn, 0
        child._accepted, child._before, child._in_call = self._accepted, self._before, False
        child.matcher = self.matcher.fork()
        return child
