"""Matchers that follow a text beside an engine's matcher, for what a grammar alone cannot describe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ...base.copying import ForkedByCopy
from ...contract import UnfinishedError, Work, is_bounded, spending
from ...contract.draft_trees import walk_tree
from ...tokenizer import Tokenizer

Position = TypeVar("Position")


class FollowingMatcher(ForkedByCopy, ABC, Generic[Position]):
    """A matcher that follows a text beside another one, and admits less; see `contract.BoundedMatcher`.

    matcher  the engine's matcher of the text
    bounded  whether that is
    """

    def __init__(self, matcher: Any, tokenizer: Tokenizer, positions: Sequence[Position]) -> None:
        self.matcher = matcher
        self.bounded = is_bounded(matcher)
        self._tokenizer = tokenizer
        self._positions = list(positions)

    @abstractmethod
    def _refused(self, words: Any, spend: Callable[[int], None]) -> list[int]:
        """The tokens to remove from a mask; `spend` counts the work."""

    @abstractmethod
    def _after(self, data: bytes, spend: Callable[[int], None]) -> Position | None:
        """The position after bytes that the engine has just accepted; None if they are refused."""

    def fill_bitmask(self, bitmask: Any, row: int = 0, work: Work | None = None) -> None:
        """Write the mask of the next token into a row of `bitmask`, int32 `[rows, ceil(vocab / 32)]`."""
        self.matcher.fill_bitmask(bitmask, row, **given_work(work))
        words = bitmask[row]
        try:
            refused = self._refused(words, spending(work))
        except UnfinishedError:
            words[:] = 0
            raise
        for token_id in refused:
            words[token_id >> 5] &= ~np.uint32(1 << (token_id & 31)).view(np.int32)

    def fill_tree_bitmask(
        self,
        token_ids: Sequence[int],
        parents: Sequence[int],
        bitmask: Any,
        row: int = 0,
        work: Work | None = None,
    ) -> np.ndarray:
        """Write the masks of all nodes of a draft tree, see `NativeMatcher.fill_tree_bitmask`."""
        return walk_tree(self, token_ids, parents, bitmask, row, work)

    def accept(self, token_id: int, work: Work | None = None) -> bool:
        """Accept a token; False, and nothing changes, if it cannot follow."""
        given = given_work(work)
        ends = token_id in self._tokenizer.eos_token_ids or token_id in self._tokenizer.special_token_ids
        if not 0 <= token_id < len(self._tokenizer):
            return bool(self.matcher.accept(token_id, **given))
        data = b"" if ends else self._tokenizer.token_bytes[token_id]
        return self._push(data, lambda: self.matcher.accept(token_id, **given), spending(work))

    def accept_bytes(self, data: bytes) -> bool:
        """Accept bytes, not necessarily those of a token; False if they cannot follow."""
        return self._push(data, lambda: self.matcher.accept_bytes(data), spending(None))

    def _push(self, data: bytes, accept: Callable[[], Any], spend: Callable[[int], None]) -> bool:
        if not accept():
            return False
        after = self._unless_rolled_back(data, spend)
        if after is None:
            return False
        self._positions.append(after)
        return True

    def _unless_rolled_back(self, data: bytes, spend: Callable[[int], None]) -> Position | None:
        """The position after bytes that the engine has accepted; it forgets them if they are refused."""
        after = None
        try:
            after = self._after(data, spend)
        finally:
            if after is None:
                self.matcher.rollback(1)
        return after

    def rollback(self, n: int) -> None:
        """Undo the last n accepted calls; ValueError if there are fewer."""
        self.matcher.rollback(n)
        if n:
            del self._positions[-n:]

    @property
    def compiled(self) -> Any:
        """The grammar of the engine's matcher: see there."""
        return self.matcher.compiled

    @property
    def accepted_calls(self) -> int:
        """How many accepted calls can be undone."""
        return int(self.matcher.accepted_calls)

    def rewind(self, calls: int) -> None:
        """Undo all accepted calls but the first `calls`, also after a call that was interrupted."""
        self.matcher.rewind(calls)
        del self._positions[1 + calls :]

    @abstractmethod
    def fork(self) -> FollowingMatcher[Position]:
        """An independent copy."""

    def is_accepting(self) -> bool:
        """Whether the text so far is in the language, so that EOS may follow."""
        return bool(self.matcher.is_accepting())

    def is_terminated(self) -> bool:
        """Whether EOS has been accepted."""
        return bool(self.matcher.is_terminated())

    @abstractmethod
    def validate(self, token_ids: Sequence[int]) -> int:
        """The number of leading tokens that could be accepted in turn; nothing changes."""

    def forced_bytes(self, limit: int = 4096, work: Work | None = None) -> bytes:
        """Bytes that must come next, at most `limit`."""
        return bytes(self.matcher.forced_bytes(limit, **given_work(work)))

    def forced_tokens(self, limit: int = 1024, work: Work | None = None) -> list[int]:
        """Tokens that must come next, at most `limit`; [] if there is a choice."""
        return list(self.matcher.forced_tokens(limit, **given_work(work)))

    def open_terminals(self) -> np.ndarray:
        """Which terminals the next token may begin in: uint8, 1 for each that is being read or may begin."""
        found: np.ndarray = self.matcher.open_terminals()
        return found

    @abstractmethod
    def next_bytes(self, work: Work | None = None) -> bytes:
        """The bytes that may come next, ascending."""


def given_work(work: Work | None) -> dict[str, Work]:
    """`work` as the keyword that a bounded matcher takes."""
    return {} if work is None else {"work": work}
