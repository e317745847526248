"""The tokens that a mask may have to lose, by what they do to items."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ....tokenizer import Tokenizer
from ...program.rules import UNIQUE_MARK
from ..item_values import is_partial, prefix_of
from ..token_texts import DIGITS, LETTERS, TokensByText, texts_of
from .positions import NestedPosition, may_repeat
from .values import Value, ascending_scalars

_BACKSLASH = b"\\"[0]
_SPACE = b" \t\r\n"
_NOTHING: list[int] = []
_ESCAPED = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"b": b"\b",
    b"f": b"\f",
    b'"': b'"',
    b"\\": b"\\",
    b"/": b"/",
}


Ids = npt.NDArray[np.int64]


class NestedTokens:
    """The tokens of a tokenizer by what they do to items.

    marked    those with the byte `UNIQUE_MARK`
    arrays    those in which an array begins and has a comma
    various   those with a backslash, with two quotes, or with a quote and two commas
    mixed     those with a quote and a comma
    nested    those with a bracket or a brace
    simple    those that begin one string, and nothing else
    commas    those of a comma and digits, by these
    numeric   others without quotes that may end a number, or change what its digits say
    plain     those without quotes, by their bytes
    words     those without quotes, by their bytes behind white space
    escapes   those with a backslash, by what they begin with: their bytes before it and what it stands for
    tails     those with quotes, by their bytes after the last one
    heads     those with quotes, by their bytes before the first one
    longest   the number of bytes of the longest token
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._all = tokens = texts_of(tokenizer)
        self._texts = texts = tokenizer.token_bytes
        self._size = len(tokenizer)
        self.longest = int(np.diff(tokens.offsets).max(initial=1, where=tokens.usual))
        self.tails: dict[bytes, list[int]] = {}
        self.heads: dict[bytes, list[int]] = {}
        self.escapes: dict[bytes, list[int]] = {}
        self.commas: dict[bytes, list[int]] = {}
        self.marked = tokens.with_byte(UNIQUE_MARK)
        self.nested = np.union1d(tokens.with_byte(b"["), tokens.with_byte(b"{"))
        arrays = tokens.with_byte(b"[").tolist()
        self.arrays = _array_of(one for one in arrays if b"," in texts[one].partition(b"[")[2])
        self.various, self.mixed, self.simple = self._read_quotes()
        unquoted = tokens.usual & ~self._has_quote
        starts, lengths = tokens.behind(_SPACE)
        self.plain = TokensByText(tokens, tokens.offsets[:-1], unquoted)
        self.words = TokensByText(tokens, starts, unquoted)
        self._closers = self._read_commas(unquoted)
        self._with_comma = _array_of(chain.from_iterable(self.commas.values()))
        digits = (lengths > 0) & (tokens.count(DIGITS) == lengths)
        alphabetic = (lengths > 0) & (tokens.count(LETTERS) == lengths)
        numeric = unquoted & ~digits & ~alphabetic
        numeric[self._with_comma] = False
        numeric[[*self.words.get(b"e"), *self.words.get(b"E")]] = True
        self.numeric = np.flatnonzero(numeric)

    def _read_quotes(self) -> tuple[Ids, Ids, Ids]:
        """Sort the tokens with quotes or backslashes. Returns those of `various`, `mixed` and `simple`."""
        tokens = self._all
        quoted = tokens.with_byte(b'"')
        self._has_quote = np.zeros(self._size, np.bool_)
        self._has_quote[quoted] = True
        various, mixed, simple = [], [], []
        for token_id in np.union1d(quoted, tokens.with_byte(b"\\")).tolist():
            data = self._texts[token_id]
            quotes, escapes = data.count(b'"'), _BACKSLASH in data
            if escapes:
                self.escapes.setdefault(_before_escape(data), []).append(token_id)
            if quotes:
                self.tails.setdefault(data[data.rfind(b'"') + 1 :], []).append(token_id)
                self.heads.setdefault(data[: data.find(b'"')], []).append(token_id)
            if quotes > 1 or escapes or (quotes and data.count(b",") > 1):
                various.append(token_id)
            elif quotes and b"," in data:
                mixed.append(token_id)
            if quotes == 1 and not escapes and not data[: data.find(b'"')].strip(_SPACE + b":"):
                simple.append(token_id)
        return _array_of(various), _array_of(mixed), _array_of(simple)

    def _read_commas(self, unquoted: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
        """Sort the tokens with commas. Returns how many containers each may end before its last comma; -1
        without one."""
        closers = np.full(self._size, -1, np.int8)
        for token_id in self._all.with_byte(b",").tolist():
            data = self._texts[token_id]
            before = data[: data.rfind(b",")]
            closers[token_id] = min(before.count(b"}") + before.count(b"]"), 100)
            words = data.lstrip(_SPACE)
            if words[:1] == b"," and (digits := words[1:].lstrip(_SPACE)).isdigit() and unquoted[token_id]:
                self.commas.setdefault(digits, []).append(token_id)
        return closers

    def candidates(self, position: NestedPosition, words: Any) -> list[int]:
        """The tokens of a mask that may have to be removed."""
        allowed = _bits(words)[: self._size]
        found = np.zeros(self._size, np.bool_)
        if position.top is None:
            found[self.arrays] = True
        elif position.is_flat:
            found[sorted(self._beginning(position))] = True
            for others in self._others(position):
                found[others] = True
        else:
            self._mark_within(position, found)
        return [int(one) for one in np.flatnonzero(found & allowed)]

    def _mark_within(self, position: NestedPosition, found: npt.NDArray[np.bool_]) -> None:
        """Mark those within an item that is an array or an object."""
        is_string = position.text[:1] == b'"'
        if not may_repeat(position):
            # another item must begin: behind a comma, and behind the ends of what the present one has open
            found |= self._closers >= _levels(position)
            found[self.arrays] = True
            if is_string:
                found &= self._has_quote
        elif not is_string:
            found[:] = True
            found[self.simple] = False
            for one in ascending_scalars(position.rivals):
                for end in range(1, min(len(one), self.longest) + 1):
                    found[self.tails.get(one[1:end], _NOTHING)] = True
        elif position.escaped or is_partial(position.text):
            found[:] = True
        else:
            found |= self._closers >= _levels(position)
            found[self.arrays] = True
            found &= self._has_quote
            prefix = prefix_of(position.text)
            for one in ascending_scalars(position.rivals):
                if one.startswith(prefix):
                    rest = one[len(prefix) :]
                    found[sorted(self._continuing(rest, self.plain))] = True
                    for end in range(min(len(rest), self.longest) + 1):
                        found[self.escapes.get(rest[:end], _NOTHING)] = True

    def _continuing(self, rest: bytes, continuing: TokensByText) -> set[int]:
        """Those that are the beginning of the rest of an item, or end behind it."""
        found: set[int] = set(self.heads.get(rest, ()))
        for end in range(1, min(len(rest), self.longest) + 1):
            found.update(continuing.get(rest[:end]))
        return found

    def _beginning(self, position: NestedPosition) -> set[int]:
        """Those after which an item that has begun is the beginning of another one, or is one."""
        prefix = position.text
        if prefix[:1] == b'"':
            prefix = prefix_of(prefix)
        found: set[int] = set()
        items = ascending_scalars(_items(position))
        if position.text == b"-":
            found.update(self.plain.get(b"0"))  # equal to an item without the sign
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
                found |= self._continuing(item[len(prefix) :], continuing)
        return found

    def _others(self, position: NestedPosition) -> list[Any]:
        """Those of which their bytes alone do not tell."""
        is_string = position.text[:1] == b'"'
        if position.escaped or (is_string and is_partial(position.text)):
            return [slice(None)]
        items = _items(position)
        scalars = ascending_scalars(items)
        nested = [] if len(scalars) == len(items) else [self.nested]
        if is_string:
            return [self.various, self.mixed, *nested]
        if not position.text.isalpha() and any(mark in position.text for mark in (b".", b"e", b"E")):
            return [slice(None)]  # more digits may say the same
        whole = position.closed or (position.text.isdigit() and position.text not in items)
        return [
            self.various,
            self.mixed,
            self.numeric,
            *nested,
            *([] if whole else [self._with_comma]),
        ]


def _items(position: NestedPosition) -> frozenset[Value]:
    """The items of the innermost array."""
    return frozenset() if position.top is None else position.top.items or frozenset()


def _array_of(ids: Iterable[int]) -> Ids:
    return np.fromiter(ids, np.int64)


def _before_escape(data: bytes) -> bytes:
    """What a token with a backslash begins with, up to the end of its first escape, if that is known."""
    at = data.find(b"\\")
    quote = data.find(b'"')
    if 0 <= quote < at:
        return data[:quote]
    return data[:at] + _ESCAPED.get(data[at + 1 : at + 2], b"")


def _levels(position: NestedPosition) -> int:
    """The number of containers around a position up to the first array whose items must differ."""
    found, top = 0, position.top
    while top is not None and top.items is None:
        found, top = found + 1, top.outer
    return found


def _bits(words: Any) -> npt.NDArray[np.bool_]:
    """Which tokens a mask has."""
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little").view(np.bool_)


def tokens_of(tokenizer: Tokenizer) -> NestedTokens:
    """The tokens of a tokenizer, sorted once."""
    return tokenizer.kept("nested_tokens", lambda: NestedTokens(tokenizer))
