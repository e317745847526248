"""The grammar of one request: its matcher, and whether the last mask filled is still valid."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np

from ..base.calling import call_for_add
from ..base.errors import INTERRUPTIONS
from ..contract import UnfinishedError, Vocabulary, Work, bitmask_words, is_bounded
from ..contract.constraints import RuleSettings, compiled_of
from ..contract.work import REQUEST_WORK
from .results import CapturedTokens, NoCaptures

_MOST_FORCED = 1 << 16
"""The most forced tokens that are taken from a matcher at once."""


class Constraint:
    """Holds a request's text to a language.

    matcher     any object with the methods of `contract.Matcher`; what it raises is raised here.
    bounded     whether it is a `contract.BoundedMatcher`. Methods that are given `work` raise UnfinishedError
                if that is too little for it, and nothing has changed; others take as long as they need.
    mask_ready  whether the last mask filled is that of the next token.
    compiled    the grammar as compiled, if it has captures or settings, or leaves something unenforced.
    """

    __slots__ = (
        "_accepted",
        "_before",
        "_has_eos",
        "_in_call",
        "_words",
        "bounded",
        "compiled",
        "mask_ready",
        "matcher",
    )

    def __init__(self, matcher: Any, vocab_size: int, has_eos: bool) -> None:
        self.matcher = matcher
        self.bounded = is_bounded(matcher)
        self.compiled = compiled_of(matcher)
        self.mask_ready = False
        self._words = bitmask_words(vocab_size)
        self._has_eos = has_eos
        self._accepted = 0
        """How many tokens the matcher has been given."""
        self._before: int | None = getattr(matcher, "accepted_calls", None)
        """How many calls it had accepted before, if it is one of our own, which know."""
        self._in_call = False
        """Whether it is being changed."""

    def put_before(self, matcher: Any) -> None:
        """Have another matcher, which wraps the present one; neither has accepted anything."""
        self.matcher = matcher
        self._before = getattr(matcher, "accepted_calls", None)

    @property
    def accepted(self) -> int:
        """How many tokens it has accepted."""
        return self._accepted

    @property
    def forcing(self) -> Any:
        """The matcher of the text that comes next; None where a marker may begin before that, or goes on."""
        return getattr(self.matcher, "past_opening", self.matcher)

    @property
    def is_own(self) -> bool:
        """Whether the matcher is one of our own, of which copies may go ahead."""
        return self._before is not None

    @property
    def is_begun(self) -> bool:
        """Whether the matcher had accepted anything before, if it is one of our own."""
        return bool(self._before)

    @property
    def taken(self) -> int:
        """How many of these its language has: those of a marker before it are none of its text."""
        return int(getattr(self.matcher, "taken", self._accepted))

    @property
    def rules(self) -> RuleSettings | None:
        """What its rules set; None for nothing."""
        return None if self.compiled is None else self.compiled.settings

    @property
    def unenforced(self) -> list[str]:
        """What its schema requires but it does not, in words."""
        return [] if self.compiled is None else list(self.compiled.unenforced)

    def captures(self, output: np.ndarray, begin: int) -> CapturedTokens | NoCaptures:
        """What captures match in an output, whose token number `begin` is the first under the grammar."""
        if self.compiled is None or not self.compiled.has_captures or self.is_begun:
            return NoCaptures()
        return CapturedTokens(output[: begin + self.taken], self.compiled, begin)

    def mask(self, work: Work | None = None) -> np.ndarray:
        """The mask of the next token, int32 [ceil(vocab / 32)]."""
        bitmask = np.zeros((1, self._words), np.int32)
        if work is not None and self.bounded:
            self.matcher.fill_bitmask(bitmask.view(), 0, work=work)
        else:
            self.matcher.fill_bitmask(bitmask.view(), 0)
        return bitmask[0]

    def accept(self, token_id: int, work: Work | None = None) -> bool:
        """Accept the next token; False if it is refused."""
        self._in_call = True
        if work is None or not self.bounded:
            accepted = bool(self.matcher.accept(token_id))
        else:
            try:
                accepted = bool(self.matcher.accept(token_id, work))
                if accepted and not self._has_eos:
                    self._find_end(work)
            except UnfinishedError:  # nothing has changed
                self._in_call = False
                raise
        self._accepted += accepted
        self._in_call = self.mask_ready = False
        return accepted

    def _find_end(self, work: Work) -> None:
        """What `has_ended` needs without EOS. If that is unfinished, the last token is not accepted."""
        if self.matcher.is_accepting():
            try:
                self.mask(work)
            except UnfinishedError:
                self.matcher.rollback(1)
                raise

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
        forced = getattr(self.matcher, "forced_tokens", None)
        if forced is None:
            return []
        try:
            tokens = forced(work=Work(REQUEST_WORK, REQUEST_WORK)) if self.bounded else forced()
        except UnfinishedError:
            return []
        return [operator.index(token_id) for token_id in itertools.islice(tokens or (), _MOST_FORCED)]

    def rollback(self, n: int) -> None:
        """Undo the last n tokens."""
        self.mask_ready = False
        if n:
            self._in_call = True
            self.matcher.rollback(n)
            self._accepted -= n
            self._in_call = False

    def rebuild(self, length: int) -> None:
        """Go back to its first `length` tokens after a call that was interrupted, perhaps within the matcher.

        Our own matchers know how many they have accepted, whatever happens; another one that was interrupted
        within a call cannot be relied on, and raises `RuntimeError`.
        """
        self.mask_ready = False
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
        child._has_eos, child._words, child.compiled = self._has_eos, self._words, self.compiled
        child.mask_ready = False
        child._accepted, child._before, child._in_call = self._accepted, self._before, False
        child.matcher = self.matcher.fork()
        child.bounded = is_bounded(child.matcher)
        return child


def constrained_by(matcher: Any, vocabulary: Vocabulary) -> Constraint | None:
    """The constraint of a request with this matcher, or None."""
    if matcher is None:
        return None
    has_eos = bool(vocabulary.eos_token_ids)
    return call_for_add("the grammar", Constraint, matcher, vocabulary.size, has_eos)
