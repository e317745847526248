"""The matcher of texts in which some arrays do not repeat an item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ....tokenizer import Tokenizer
from ...program.rules import UNIQUE_MARK
from ..item_following import Brackets, ItemsMatcher
from .positions import NestedPosition, may_repeat, position_after
from .searching import Ahead, Hints
from .tokens import tokens_of

_STEPS_OF_A_TOKEN, _STEPS_OF_AN_ITEM = 1000, 200
"""What it takes to try a token, and to look for the tokens that begin an item, in the steps of
`contract.Work`."""


class _Search(NamedTuple):
    """The search for the tokens that a mask must not have: what is left to try, and those found.

    ahead  the search behind the last one of `untried`, if it has begun
    """

    position: NestedPosition
    untried: list[int]
    refused: list[int]
    ahead: list[Ahead]


class NestedItemsMatcher(ItemsMatcher[NestedPosition]):
    """A matcher of texts in which some arrays do not repeat an item; see `contract.BoundedMatcher`.

    matcher  the engine's matcher of the text
    bounded  whether that is
    """

    def __init__(
        self,
        matcher: Any,
        tokenizer: Tokenizer,
        positions: Sequence[NestedPosition] = (NestedPosition(),),
    ) -> None:
        super().__init__(matcher, tokenizer, positions)
        self._tokens = tokens_of(tokenizer)
        self._search: _Search | None = None
        self._hints = Hints()

    def __repr__(self) -> str:
        top = self._positions[-1].top
        count = 0 if top is None else len(top.items or ())
        return f"<NestedItemsMatcher of {self.matcher!r}, {count} items so far>"

    def _refused(self, words: Any, spend: Callable[[int], None]) -> list[int]:
        position = self._positions[-1]
        search = self._search
        if search is None or search.position is not position:
            spend(_STEPS_OF_A_TOKEN + _STEPS_OF_AN_ITEM * len(position.rivals))
            search = self._search = _Search(position, self._tokens.candidates(position, words), [], [])
        while search.untried:
            if not search.ahead:
                spend(_STEPS_OF_A_TOKEN)
                data = self._tokenizer.token_bytes[search.untried[-1]]
                search.ahead.append(self._begun(self.matcher, data)[1])
            if not search.ahead[-1].can_go_on(spend):
                search.refused.append(search.untried[-1])
            search.ahead.pop()
            search.untried.pop()
        return [*search.refused, *self._tokens.marked.tolist()]

    def _begun(self, before: Any, data: bytes) -> tuple[NestedPosition | None, Ahead]:
        """The position after bytes that may follow the matcher `before`, and the search behind them."""
        if UNIQUE_MARK in data:
            return None, Ahead()
        after = position_after(self._positions[-1], data, Brackets(before, data).open)
        if after is None:
            return None, Ahead()
        if not may_repeat(after):
            return after, Ahead(found=True)
        matcher = before.fork()
        matcher.accept_bytes(data)
        return after, Ahead(data, matcher, after, self._hints)

    def _needs_before(self, data: bytes) -> bool:
        return b"[" in data or self._positions[-1].top is not None

    def fork(self) -> NestedItemsMatcher:
        """An independent copy."""
        return NestedItemsMatcher(self.matcher.fork(), self._tokenizer, self._positions)
