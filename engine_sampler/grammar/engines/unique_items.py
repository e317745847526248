"""JSON texts in which no array repeats an item, where the schema says so of arrays of strings and numbers.

A grammar cannot remember arbitrary items. In programs with such arrays (`Program.unique_items`) their bracket
may be followed by `UNIQUE_MARK`, a byte that no text has: whether the engine accepts it tells a
`UniqueItemsMatcher` that such an array has begun. It then remembers the items, by value: `1` and `1.0`, `"a"`
and `"\\u0061"` are equal. It removes the tokens after which an item would occur twice, and those after which
all that can follow would: behind such a token it looks for an item that is left, and the first that it finds
decides.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ...contract import spending
from ...tokenizer import Tokenizer
from ..errors import GrammarLimitError
from ..program.rules import UNIQUE_MARK
from .following import FollowingMatcher

MAX_ITEM = 1 << 16
"""The most bytes of one of them."""

_MAX_EXPONENT_DIGITS = 1000
_MAX_PLAIN_ZEROS = 100
"""The most zeros that are written out at the end of a whole number."""

_MAX_TRIES = 500
"""The most bytes that are tried in search of an item that is left; beyond it, none counts as left."""

_QUOTE, _BACKSLASH = b'"'[0], b"\\"[0]
_SPACE = b" \t\r\n"
_LONGEST_ESCAPE = 12
_STEPS_OF_A_TOKEN, _STEPS_OF_A_TRY, _STEPS_OF_AN_ITEM = 1000, 700, 200
"""What it takes to try a token, to try a byte behind it, and to look for the tokens that begin an item, in
the steps of `contract.Work`."""


class ItemPosition(NamedTuple):
    """A position in a text.

    items    the items of the innermost array, as `_value_of` writes them; None outside of arrays whose items
             must differ
    text     the bytes of the item that has begun; b"" between items
    escaped  whether its last byte was a backslash that begins an escape
    closed   whether an item has ended: no other one may begin before a comma
    """

    items: frozenset[bytes] | None = None
    text: bytes = b""
    escaped: bool = False
    closed: bool = False


def _value_of(text: bytes) -> bytes:
    """An item, such that equal values have equal bytes: a quote and the characters of a string, a whole
    number in its digits, any other number as a whole number with an exponent, or a constant."""
    if text[0] == _QUOTE:
        return b'"' + json.loads(text).encode("utf-8", "surrogatepass")
    if text.isalpha():
        return text
    mantissa, _, exponent = text.lower().partition(b"e")
    if len(exponent) > _MAX_EXPONENT_DIGITS:
        raise GrammarLimitError(
            f"an item of an array has more than {_MAX_EXPONENT_DIGITS} digits of exponent"
        )
    whole, _, fraction = mantissa.lstrip(b"-").partition(b".")
    digits = (whole + fraction).lstrip(b"0")
    short = digits.rstrip(b"0")
    if not short:
        return b"0"
    power = int(exponent or b"0") - len(fraction) + len(digits) - len(short)
    sign = b"-" if text[:1] == b"-" else b""
    if 0 <= power <= _MAX_PLAIN_ZEROS:
        return sign + short + b"0" * power
    return b"%s%se%d" % (sign, short, power)


def _prefix_of(text: bytes) -> bytes:
    """What the value of a string that begins with `text` begins with, as `_value_of` writes it."""
    if _BACKSLASH not in text:
        return text
    for cut in range(_LONGEST_ESCAPE + 1):
        try:
            found = json.loads(text[: len(text) - cut] + b'"')
        except ValueError:
            continue
        if "\ud800" <= found[-1:] <= "\udbff":
            found = found[:-1]
        return b'"' + found.encode("utf-8", "surrogatepass")
    return b'"'


def _may_end_as_one_of(position: ItemPosition) -> bool:
    """Whether the item that has begun, or the next one, may become equal to one of the array."""
    items, text = position.items, position.text
    if not items or position.closed:
        return False
    if not text:
        return True
    if text[0] == _QUOTE:
        text = _prefix_of(text)
    elif not text.isdigit() and not text.isalpha():
        return True
    ascending = _ascending(items)
    at = bisect_left(ascending, text)
    return at < len(ascending) and ascending[at].startswith(text)


@lru_cache(maxsize=4)
def _ascending(items: frozenset[bytes]) -> list[bytes]:
    """The items in order, those with a common beginning side by side; for one mask, they are the same."""
    return sorted(items)


def _ended(position: ItemPosition) -> ItemPosition | None:
    """The position after the end of an item; None if the array has it."""
    value, items = _value_of(position.text), position.items or frozenset()
    if value in items:
        return None
    return ItemPosition(items | {value}, closed=True)


def _longer(position: ItemPosition, data: bytes) -> ItemPosition:
    text = position.text + data
    if len(text) > MAX_ITEM:
        raise GrammarLimitError(f"an item has more than {MAX_ITEM} bytes (MAX_ITEM of unique_items)")
    return position._replace(text=text, escaped=False)


def _within(position: ItemPosition, data: bytes, at: int) -> tuple[ItemPosition | None, int]:
    """The position after the next bytes of an array from data[at:] on, and where these end: after some bytes
    of a string, or one other byte."""
    byte, text = data[at], position.text
    if text[:1] == b'"':
        if position.escaped:
            return _longer(position, data[at : at + 1]), at + 1
        if byte == _QUOTE:
            return _ended(_longer(position, b'"')), at + 1
        if byte == _BACKSLASH:
            return _longer(position, b"\\")._replace(escaped=True), at + 1
        ends = [end for mark in b'"\\' if (end := data.find(mark, at)) >= 0]
        end = min(ends, default=len(data))
        return _longer(position, data[at:end]), end
    if text and byte in b",] \t\r\n":
        ended = _ended(position)
        return (None, at) if ended is None else (ended, at)
    if byte in _SPACE:
        return position, at + 1
    if byte == b"]"[0]:
        return ItemPosition(), at + 1
    if byte == b","[0]:
        return position._replace(closed=False), at + 1
    return _longer(position, data[at : at + 1]), at + 1


def _position_after(position: ItemPosition, data: bytes, opens: Callable[[int], bool]) -> ItemPosition | None:
    """The position after bytes that the grammar allows; None if an item repeats.

    opens  whether a bracket of `data` begins an array whose items must differ; asked in ascending order
    """
    at, found = 0, position
    while at < len(data):
        if found.items is None:
            at = data.find(b"[", at) + 1
            if not at:
                return ItemPosition()  # another one for each mask
            if opens(at - 1):
                found = ItemPosition(frozenset())
            continue
        after, at = _within(found, data, at)
        if after is None:
            return None
        found = after
    return found


class _Brackets:
    """Asks the engine about the brackets in bytes that follow `matcher`, which it takes over."""

    def __init__(self, matcher: Any, data: bytes) -> None:
        self._matcher = matcher
        self._data = data
        self._done = 0

    def open(self, at: int) -> bool:
        """Whether the bracket at data[at] begins an array whose items must differ."""
        self._matcher.accept_bytes(self._data[self._done : at + 1])
        self._done = at + 1
        return bool(self._matcher.fork().accept_bytes(UNIQUE_MARK))


class _Tokens:
    """The tokens of a tokenizer by what they do to items.

    marked    those with the byte `UNIQUE_MARK`
    arrays    those in which an array begins and has a comma
    various   those with a backslash, with two quotes, or with a quote and two commas
    mixed     those with a quote and a comma
    commas    those of a comma and digits, by these
    numeric   others without quotes that may end a number, or change what its digits say
    plain     those without quotes, by their bytes
    words     those without quotes, by their bytes behind white space
    tails     those with quotes, by their bytes after the last one
    heads     those with quotes, by their bytes before the first one
    longest   the number of bytes of the longest token
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        special = set(tokenizer.special_token_ids) | set(tokenizer.eos_token_ids)
        self.plain: dict[bytes, list[int]] = {}
        self.words: dict[bytes, list[int]] = {}
        self.tails: dict[bytes, list[int]] = {}
        self.heads: dict[bytes, list[int]] = {}
        self.commas: dict[bytes, list[int]] = {}
        marked, arrays, various, mixed = [], [], [], []
        self.longest = 1
        self._size = len(tokenizer)
        for token_id, data in enumerate(tokenizer.token_bytes):
            if token_id in special or not data:
                continue
            self.longest = max(self.longest, len(data))
            if UNIQUE_MARK in data:
                marked.append(token_id)
            if b"," in data[data.find(b"[") + 1 :] and b"[" in data:
                arrays.append(token_id)
            quotes = data.count(b'"')
            if quotes:
                self.tails.setdefault(data[data.rfind(b'"') + 1 :], []).append(token_id)
                self.heads.setdefault(data[: data.find(b'"')], []).append(token_id)
            else:
                self.plain.setdefault(data, []).append(token_id)
                self.words.setdefault(data.lstrip(_SPACE), []).append(token_id)
            if quotes > 1 or _BACKSLASH in data or (quotes and data.count(b",") > 1):
                various.append(token_id)
            elif quotes and b"," in data:
                mixed.append(token_id)
        self.marked, self.arrays, self.various, self.mixed = (
            np.array(ids, np.int64) for ids in (marked, arrays, various, mixed)
        )
        numeric: list[int] = []
        for data, ids in self.words.items():
            digits = data[1:].lstrip(_SPACE)
            if data[:1] == b"," and digits.isdigit():
                self.commas.setdefault(digits, []).extend(ids)
            elif not data.isdigit() and (not data.isalpha() or data in (b"e", b"E")):
                numeric += ids
        self.numeric = np.array(numeric, np.int64)
        self._with_comma = np.fromiter(chain.from_iterable(self.commas.values()), np.int64)

    def candidates(self, position: ItemPosition, words: Any) -> list[int]:
        """The tokens of a mask that may have to be removed."""
        allowed = _bits(words)[: self._size]
        found = np.zeros(self._size, np.bool_)
        found[sorted(self._beginning(position))] = True
        for others in self._others(position):
            found[others] = True
        return [int(one) for one in np.flatnonzero(found & allowed)]

    def _beginning(self, position: ItemPosition) -> set[int]:
        """Those after which an item that has begun is the beginning of another one, or is one."""
        prefix = position.text
        if prefix[:1] == b'"':
            prefix = _prefix_of(prefix)
        found: set[int] = set()
        items = position.items or frozenset()
        if position.text == b"-":
            found.update(self.plain.get(b"0", ()))  # equal to an item without the sign
        if position.closed or position.text.isdigit():
            for item in (*items, position.text):
                for end in range(1, min(len(item), self.longest) + 1):
                    found.update(self.commas.get(item[:end], ()))
        continuing = self.plain if prefix[:1] == b'"' else self.words
        for item in items:
            if item[:1] == b'"':
                for end in range(1, min(len(item), self.longest) + 1):
                    found.update(self.tails.get(item[1:end], ()))
            if item.startswith(prefix):
                rest = item[len(prefix) :]
                for end in range(1, min(len(rest), self.longest) + 1):
                    found.update(continuing.get(rest[:end], ()))
                found.update(self.heads.get(rest, ()))
        return found

    def _others(self, position: ItemPosition) -> list[Any]:
        """Those of which their bytes alone do not tell."""
        if position.items is None:
            return [self.arrays]
        is_string = position.text[:1] == b'"'
        if position.escaped or (is_string and _is_partial(position.text)):
            return [slice(None)]
        if is_string:
            return [self.various]
        if not position.text.isalpha() and any(mark in position.text for mark in (b".", b"e", b"E")):
            return [slice(None)]  # more digits may say the same
        whole = position.closed or (position.text.isdigit() and position.text not in position.items)
        return [self.various, self.mixed, self.numeric, *([] if whole else [self._with_comma])]


def _is_partial(text: bytes) -> bool:
    """Whether a string ends within an escape."""
    try:
        json.loads(text + b'"')
    except ValueError:
        return _BACKSLASH in text
    return text[-12:].rfind(b"\\u") >= 0


def _bits(words: Any) -> npt.NDArray[np.bool_]:
    """Which tokens a mask has."""
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little").view(np.bool_)


_TOKENS: WeakKeyDictionary[Tokenizer, _Tokens] = WeakKeyDictionary()


def _tokens_of(tokenizer: Tokenizer) -> _Tokens:
    found = _TOKENS.get(tokenizer)
    if found is None:
        found = _TOKENS[tokenizer] = _Tokens(tokenizer)
    return found


class _Ahead:
    """The search for an item that the array does not have, and that may follow or may be what has begun.

    beginning  where it begins; without it, the search has ended before
    found      what it has found then
    """

    def __init__(self, beginning: tuple[Any, ItemPosition] | None = None, found: bool = False) -> None:
        self._found = found
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
            after = _position_after(position, data, lambda at: False)
            if after is None:
                continue
            if after.items is None or after.items != position.items or not _may_end_as_one_of(after):
                self._found = True
            elif (following := matcher.fork()).accept_bytes(data):
                self._waiting.append((following, after, _in_order(following)))
        return self._found


class _Search(NamedTuple):
    """The search for the tokens that a mask must not have: what is left to try, and those found.

    ahead  the search behind the last one of `untried`, if it has begun
    """

    position: ItemPosition
    untried: list[int]
    refused: list[int]
    ahead: list[_Ahead]


class UniqueItemsMatcher(FollowingMatcher[ItemPosition]):
    """A matcher of texts in which some arrays do not repeat an item; see `contract.BoundedMatcher`.

    matcher  the engine's matcher of the text
    bounded  whether that is
    """

    def __init__(
        self, matcher: Any, tokenizer: Tokenizer, positions: Sequence[ItemPosition] = (ItemPosition(),)
    ) -> None:
        super().__init__(matcher, tokenizer, positions)
        self._tokens = _tokens_of(tokenizer)
        self._search: _Search | None = None

    def __repr__(self) -> str:
        return (
            f"<UniqueItemsMatcher of {self.matcher!r}, {len(self._positions[-1].items or ())} items so far>"
        )

    def _refused(self, words: Any, spend: Callable[[int], None]) -> list[int]:
        position = self._positions[-1]
        search = self._search
        if search is None or search.position is not position:
            spend(_STEPS_OF_A_TOKEN + _STEPS_OF_AN_ITEM * len(position.items or ()))
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

    def _judged(self, before: Any, data: bytes) -> ItemPosition | None:
        """The position after bytes that may follow the matcher `before`; None if no text may go on so."""
        after, ahead = self._begun(before, data)
        return after if ahead.can_go_on(spending(None)) else None

    def _begun(self, before: Any, data: bytes) -> tuple[ItemPosition | None, _Ahead]:
        """The position after bytes that may follow the matcher `before`, and the search behind them."""
        if UNIQUE_MARK in data:
            return None, _Ahead()
        after = _position_after(self._positions[-1], data, _Brackets(_Forked(before), data).open)
        if after is None:
            return None, _Ahead()
        if not _may_end_as_one_of(after):
            return after, _Ahead(found=True)
        matcher = before.fork()
        matcher.accept_bytes(data)
        return after, _Ahead((matcher, after))

    def _needs_before(self, data: bytes) -> bool:
        return b"[" in data or self._positions[-1].items is not None

    def _after(self, data: bytes, before: Any, spend: Callable[[int], None]) -> ItemPosition | None:
        return self._judged(before, data)

    def fork(self) -> UniqueItemsMatcher:
        """An independent copy."""
        return UniqueItemsMatcher(self.matcher.fork(), self._tokenizer, self._positions)

    def validate(self, token_ids: Sequence[int]) -> int:
        """The number of leading tokens that could be accepted in turn; nothing changes."""
        other = self.fork()
        return next((n for n, token_id in enumerate(token_ids) if not other.accept(token_id)), len(token_ids))

    def next_bytes(self) -> bytes:
        """The bytes that may come next, ascending."""
        found: bytes = self.matcher.next_bytes()
        return bytes(byte for byte in found if self._judged(self.matcher, bytes((byte,))) is not None)


class _Forked:
    """A fork that is made when it is first needed: most bytes have no bracket."""

    def __init__(self, matcher: Any) -> None:
        self._origin = matcher
        self._matcher: Any = None

    def accept_bytes(self, data: bytes) -> bool:
        """Accept bytes."""
        if self._matcher is None:
            self._matcher = self._origin.fork()
        return bool(self._matcher.accept_bytes(data))

    def fork(self) -> Any:
        """A copy of the fork."""
        return self._matcher.fork()


def _in_order(matcher: Any) -> Iterator[int]:
    """The bytes that may follow; first what ends an item, last what does not change one."""
    return iter(sorted(matcher.next_bytes(), key=_rank))


def _rank(byte: int) -> int:
    if byte in b'",]':
        return 0
    return 2 if byte in b"0+-.eE \t\r\n\\\xff" else 1
