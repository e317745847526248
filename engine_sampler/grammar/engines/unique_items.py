"""JSON texts in which no array repeats an item, where the schema says so of arrays of strings and numbers.

A grammar cannot remember arbitrary items. In programs with such arrays (`Program.unique_items`) their bracket
may be followed by `UNIQUE_MARK`, a byte that no text has: whether the engine accepts it tells a
`UniqueItemsMatcher` that such an array has begun. It then remembers the items, by value: `1` and `1.0`, `"a"`
and `"\\u0061"` are equal. It removes the tokens after which an item would occur twice, and those after which
all that can follow would: behind such a token it looks for an item that is left, and the first that it finds
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ...tokenizer import Tokenizer
from ..program.rules import UNIQUE_MARK
from .item_following import Brackets, ItemsMatcher
from .item_positions import ItemPosition, may_end_as_one_of, position_after
from .item_tokens import tokens_of
from .item_values import BACKSLASH, SPACE

_MAX_TRIES = 500
"""The most bytes that are tried in search of an item that is left; beyond it, none counts as left."""

_STEPS_OF_A_TOKEN, _STEPS_OF_A_TRY, _STEPS_OF_AN_ITEM = 1000, 700, 200
"""What it takes to try a token, to try a byte behind it, and to look for the tokens that begin an item, in
the steps of `contract.Work`."""


class _Ahead:
    """The search for an item that the array does not have, and that may follow or may be what has begun.

    beginning  where it begins; without it, the search has ended before
    found      what it has found then
    witness    the beginning of an item that it has found, and that no item of the array has
    """

    def __init__(self, beginning: tuple[Any, ItemPosition] | None = None, found: bool = False) -> None:
        self._found = found
        self.witness = b""
        self._left = _MAX_TRIES
        self._waiting: list[tuple[Any, ItemPosition, Iterator[int]]] = []
        if beginning is not None:
            self._waiting.append((*beginning, _in_order(beginning[0])))

    def can_go_on(self, spend: Callable[[int], None]) -> bool:
        """Whether there is such an item; goes on where `spend` has interrupted it."""
        while self._waiting and self._left and not self._found:
            spend(_STEPS_OF_A_TRY)
            self._left -= 1
            matcher, position, untried = self._waiting[-1]
            byte = next(untried, None)
            if byte is None:
                self._waiting.pop()
                continue
            data = bytes((byte,))
            after = position_after(position, data, lambda at: False)
            if after is None:
                continue
            if after.items is None or after.items != position.items or not may_end_as_one_of(after):
                self._found = True
                self.witness = position.text + data
            elif (following := matcher.fork()).accept_bytes(data):
                self._waiting.append((following, after, _in_order(following)))
        return self._found


class _Search(NamedTuple):
    """The search for the tokens that a mask must not have: what is left to try, and those found.

    ahead     the search behind the last one of `untried`, if it has begun
    verdicts  whether a text may go on after a token, by `_essence`; by None if it may after one of those that
              `_ends_anew` names
    """

    position: ItemPosition
    untried: list[int]
    refused: list[int]
    ahead: list[_Ahead]
    verdicts: dict[bytes | None, bool]


class UniqueItemsMatcher(ItemsMatcher[ItemPosition]):
    """A matcher of texts in which some arrays do not repeat an item; see `contract.BoundedMatcher`.

    matcher  the engine's matcher of the text
    bounded  whether that is
    """

    def __init__(
        self, matcher: Any, tokenizer: Tokenizer, positions: Sequence[ItemPosition] = (ItemPosition(),)
    ) -> None:
        super().__init__(matcher, tokenizer, positions)
        self._tokens = tokens_of(tokenizer)
        self._search: _Search | None = None
        self._witness = b""  # the latest beginning of an item that was found to be left

    def __repr__(self) -> str:
        return (
            f"<UniqueItemsMatcher of {self.matcher!r}, {len(self._positions[-1].items or ())} items so far>"
        )

    def _refused(self, words: Any, spend: Callable[[int], None]) -> list[int]:
        position = self._positions[-1]
        search = self._search
        if search is None or search.position is not position:
            spend(_STEPS_OF_A_TOKEN + _STEPS_OF_AN_ITEM * len(position.items or ()))
            found = self._tokens.candidates(position, words, self._opens)
            search = self._search = _Search(position, found, [], [], {})
        while search.untried:
            if not self._may_follow(search, self._tokenizer.token_bytes[search.untried[-1]], spend):
                search.refused.append(search.untried[-1])
            search.untried.pop()
        return [*search.refused, *self._tokens.marked]

    def _may_follow(self, search: _Search, data: bytes, spend: Callable[[int], None]) -> bool:
        """Whether a text may go on after a token; goes on where `spend` has interrupted it."""
        verdicts, essence = search.verdicts, _essence(search.position, data)
        found = verdicts.get(essence)
        if found is None:
            ends = _ends_anew(search.position, data, self._witness)
            if ends and verdicts.get(None):
                return True
            found = verdicts[essence] = self._verdict(search, data, spend)
            if ends and found:
                verdicts[None] = True
        return found

    def _opens(self, data: bytes) -> bool:
        """Whether an array whose items must differ begins with the last of some bytes."""
        return bool(self.matcher.fork().accept_bytes(data + UNIQUE_MARK))

    def _verdict(self, search: _Search, data: bytes, spend: Callable[[int], None]) -> bool:
        """Whether a text may go on after a token; goes on where `spend` has interrupted it."""
        if not search.ahead:
            spend(_STEPS_OF_A_TOKEN)
            search.ahead.append(self._begun(self.matcher, data)[1])
        found = search.ahead[-1].can_go_on(spend)
        self._remember(search.ahead.pop().witness, search.position)
        return found

    def _remember(self, witness: bytes, position: ItemPosition) -> None:
        """Keep a beginning of an item if it is more likely to be useful again than the one that is kept."""
        kept = self._witness
        if witness and (len(witness) <= len(kept) or not kept or not _is_left(position, kept)):
            self._witness = witness

    def _begun(self, before: Any, data: bytes) -> tuple[ItemPosition | None, _Ahead]:
        """The position after bytes that may follow the matcher `before`, and the search behind them."""
        if UNIQUE_MARK in data:
            return None, _Ahead()
        after = position_after(self._positions[-1], data, Brackets(before, data).open)
        if after is None:
            return None, _Ahead()
        if not may_end_as_one_of(after):
            return after, _Ahead(found=True)
        witness = self._witness
        usable = witness.startswith(after.text) and _is_left(after, witness)
        if usable and before.fork().accept_bytes(data + witness[len(after.text) :]):
            return after, _Ahead(found=True)
        matcher = before.fork()
        matcher.accept_bytes(data)
        return after, _Ahead((matcher, after))

    def _needs_before(self, data: bytes) -> bool:
        return b"[" in data or self._positions[-1].items is not None

    def fork(self) -> UniqueItemsMatcher:
        """An independent copy."""
        other = UniqueItemsMatcher(self.matcher.fork(), self._tokenizer, self._positions)
        other._witness = self._witness
        return other


def _is_left(position: ItemPosition, witness: bytes) -> bool:
    """Whether the array does not have an item that begins so."""
    after = position_after(ItemPosition(position.items), witness, lambda at: False)
    return after is not None and (after.items != position.items or not may_end_as_one_of(after))


def _ends_anew(position: ItemPosition, data: bytes, witness: bytes) -> bool:
    """Whether a string ends in a token as an item that the array does not have, before nothing but a comma,
    and other than `witness`: if that is left after another such token, so it is after this one."""
    if position.items is None or position.text[:1] != b'"' or BACKSLASH in position.text + data + witness:
        return False
    head, quote, tail = data.partition(b'"')
    value = position.text + head
    if not quote or tail.strip(SPACE) != b"," or value in position.items:
        return False
    return value != witness[:-1] if witness[-1:] == b'"' else not value.startswith(witness)


def _essence(position: ItemPosition, data: bytes) -> bytes:
    """A token without white space on which it does not depend whether a text may go on after it."""
    if position.items is None or BACKSLASH in data or position.escaped:
        return data
    if not position.text:
        data = data.lstrip(SPACE)
    parts = data.split(b'"')
    for number in range(int(position.text[:1] == b'"'), len(parts), 2):
        bare = parts[number].strip(SPACE)
        if bare == b"," or not bare:
            parts[number] = bare
    return b'"'.join(parts)


def _in_order(matcher: Any) -> Iterator[int]:
    """The bytes that may follow; first what ends an item, last what does not change one."""
    return iter(sorted(matcher.next_bytes(), key=_rank))


def _rank(byte: int) -> int:
    if byte in b'",]':
        return 0
    return 2 if byte in b"0+-.eE \t\r\n\\\xff" else 1
