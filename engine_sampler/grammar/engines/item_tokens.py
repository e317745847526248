"""The tokens of a tokenizer by what they do to the items of arrays whose items must differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.cached import cached_property
from ...tokenizer import Tokenizer
from ..program.rules import UNIQUE_MARK
from .item_positions import ItemPosition
from .item_values import BACKSLASH, SPACE, is_partial, prefix_of
from .token_texts import DIGITS, LETTERS, TokensByText, TokenTexts, texts_of

_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"} | {
    bytes((byte,)): bytes((byte,)) for byte in b'"\\/'
}
"""What stands for a character behind a backslash, without `u`."""

_ESCAPE = re.compile(rb"\\.", re.DOTALL)

_IN_CONSTANTS = DIGITS + b"-+.eEtrufalsn"

Flags = npt.NDArray[np.bool_]


class ItemTokens:
    """The tokens of a tokenizer that may have to be removed from masks.

    texts   their bytes
    all     the same, end to end
    marked  those with the byte `UNIQUE_MARK`

    What else is known of them is found when the first array with items that must differ begins.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.texts = tokenizer.token_bytes
        self.all = texts_of(tokenizer)
        self.marked = self.all.with_byte(UNIQUE_MARK).tolist()
        self._openings: dict[bytes, list[int]] = {}
        for token_id in self.all.with_byte(b"[").tolist():
            before, bracket, after = self.texts[token_id].partition(b"[")
            if b"," in after:
                self._openings.setdefault(before + bracket, []).append(token_id)

    @cached_property
    def _items(self) -> _Classes:
        return _Classes(self.texts, self.all)

    def candidates(self, position: ItemPosition, words: Any, opens: Callable[[bytes], bool]) -> list[int]:
        """The tokens of a mask that may have to be removed.

        opens  whether an array whose items must differ begins with the last of some bytes
        """
        if position.items is None:
            return [one for beginning in self._openings for one in self._opening(beginning, words, opens)]
        return self._items.candidates(position, words)

    def _opening(self, beginning: bytes, words: Any, opens: Callable[[bytes], bool]) -> list[int]:
        """The tokens with such a beginning in which an array may begin and have a comma."""
        found = _allowed(self._openings[beginning], words)
        if not found or opens(beginning):
            return found
        return [one for one in found if b"[" in self.texts[one][len(beginning) :]]


class _Classes:
    """The classes of tokens that matter where an array has begun.

    words    those of a number or constant, by their bytes behind white space
    tails    those with one quote, by their bytes after it
    heads    those with quotes, by their bytes before the first one
    slashed  those with a backslash in which no string ends, by their bytes before it and the character that
             it stands for; only by the former if that is not known
    wholes   those that begin with a string, by its bytes, behind white space
    commas   those of a comma and digits, by these
    longest  the number of bytes of the longest token
    """

    def __init__(self, texts: Sequence[bytes], tokens: TokenTexts) -> None:
        self._tokens, self._texts = tokens, texts
        self._size = len(texts)
        self.longest = int(np.diff(tokens.offsets).max(initial=1))
        self._plain = TokensByText(tokens, tokens.offsets[:-1], tokens.usual)
        self.tails: dict[bytes, list[int]] = {}
        self.heads: dict[bytes, list[int]] = {}
        self.slashed: dict[bytes, list[int]] = {}
        self.wholes: dict[bytes, list[int]] = {}
        self.commas: dict[bytes, list[int]] = {}
        self.words: dict[bytes, list[int]] = {}
        self._first: dict[int, Any] = {}
        various, ending, mixed, simple = self._read_quotes()
        self._inner = self._packed(ending)
        quoted = self._flags(tokens.with_byte(b'"'))
        self._quoted = self._packed(quoted)
        blank, numeric = self._read_words(quoted)
        self._outer = self._packed(various | mixed | numeric)
        self._between = self._packed((various | mixed | numeric) & ~simple)
        with_comma = self._flags(one for ids in self.commas.values() for one in ids)
        self._unknown = self._packed(various | mixed | numeric | blank | with_comma)
        self._usual = self._packed(tokens.usual)

    def _flags(self, ids: Iterable[int]) -> Flags:
        found = np.zeros(self._size, np.bool_)
        found[np.fromiter(ids, np.int64)] = True
        return found

    @staticmethod
    def _packed(flags: Flags) -> npt.NDArray[np.uint32]:
        """Flags as a mask."""
        padded = np.zeros((len(flags) + 31) // 32 * 32, np.bool_)
        padded[: len(flags)] = flags
        return np.packbits(padded, bitorder="little").view(np.uint32)

    def _read_quotes(self) -> tuple[Flags, Flags, Flags, Flags]:
        """Sort the tokens with quotes or backslashes. Returns those with a backslash, two quotes, or a quote
        and two commas; those of them, and of a quote and a comma, in which a string may end and another item
        begin; those with a quote and one comma; those that begin with a string, and with no other item."""
        various, ending, mixed, simple = [], [], [], []
        tokens, texts = self._tokens, self._texts
        for token_id in np.union1d(tokens.with_byte(b'"'), tokens.with_byte(b"\\")).tolist():
            data = texts[token_id]
            quotes = data.count(b'"')
            if quotes == 1:
                self.tails.setdefault(data[data.find(b'"') + 1 :], []).append(token_id)
            if quotes:
                self.heads.setdefault(data[: data.find(b'"')], []).append(token_id)
            if quotes > 1 or BACKSLASH in data or (quotes and data.count(b",") > 1):
                various.append(token_id)
            elif quotes and b"," in data:
                mixed.append(token_id)
            if BACKSLASH in data and b'"' not in _ESCAPE.sub(b"", data):
                self._read_slash(token_id, data)
            elif quotes > 1 or BACKSLASH in data or b"," in data[data.find(b'"') :]:
                ending.append(token_id)
            if BACKSLASH not in data and self._read_string(token_id, data.lstrip(SPACE)):
                simple.append(token_id)
        return self._flags(various), self._flags(ending), self._flags(mixed), self._flags(simple)

    def _read_string(self, token_id: int, data: bytes) -> bool:
        """Whether bytes begin with a string, and with no other item."""
        before, *strings = data.split(b'"')
        if len(strings) == 2:
            self.wholes.setdefault(strings[0], []).append(token_id)
        return not before and (len(strings) == 1 or (len(strings) == 2 and b"," not in strings[1]))

    def _read_slash(self, token_id: int, data: bytes) -> None:
        before, _, after = data.partition(b"\\")
        self.slashed.setdefault(before + _ESCAPES.get(after[:1], b""), []).append(token_id)

    def _read_words(self, quoted: Flags) -> tuple[Flags, Flags]:
        """Sort the tokens without quotes. Returns those of white space, and others that may end a number or
        change what its digits say."""
        tokens, texts = self._tokens, self._texts
        _, lengths = tokens.behind(SPACE)
        digits = tokens.count(DIGITS) == lengths
        alphabetic = tokens.count(LETTERS) == lengths
        plain = ~quoted & tokens.usual
        blank = plain & (lengths == 0)
        numeric = plain & (lengths > 0) & ~digits & ~alphabetic
        for token_id in tokens.with_byte(b",").tolist():
            data = texts[token_id].lstrip(SPACE)
            if data[:1] == b"," and (after := data[1:].lstrip(SPACE)).isdigit() and plain[token_id]:
                self.commas.setdefault(after, []).append(token_id)
                numeric[token_id] = False
        constant = tokens.count(_IN_CONSTANTS) == lengths
        for token_id in np.flatnonzero(plain & constant & (lengths > 0)).tolist():
            self.words.setdefault(texts[token_id].lstrip(SPACE), []).append(token_id)
        for exponent in (b"e", b"E"):
            numeric[self.words.get(exponent, [])] = True
        return blank, numeric

    def candidates(self, position: ItemPosition, words: Any) -> list[int]:
        """The tokens of a mask that may have to be removed, in an array."""
        if position.text[:1] == b'"':
            named, others = self._in_string(position)
        else:
            named, others = self._beginning(position), self._others(position)
        count = len(self._usual)
        allowed = words[:count].view(np.uint32) & self._usual
        chosen = allowed if others is None else allowed & others
        places = np.flatnonzero(chosen)
        bits = np.unpackbits(chosen[places].view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
        rows, columns = np.nonzero(bits)
        found = set((places[rows] * 32 + columns).tolist())
        return sorted(found.union(_allowed(named, allowed)))

    def _in_string(self, position: ItemPosition) -> tuple[set[int], Any]:
        """The tokens that may have to be removed within a string: some by name, and those of a mask."""
        begun = prefix_of(position.text)
        rests = [item[len(begun) :] for item in position.items or () if item.startswith(begun)]
        if position.escaped:
            return set(), self._after_backslash(rests)
        if is_partial(position.text):
            return set(), None if rests else self._quoted
        found: set[int] = set()
        for rest in rests:
            found.update(self._prefixes_of(rest))
            for end in range(min(len(rest), self.longest) + 1):
                found.update(self.slashed.get(rest[:end], ()))
            found.update(self.heads.get(rest, ()))
        return found, self._inner

    def _after_backslash(self, rests: list[bytes]) -> Any:
        """The mask of those that may have to be removed behind a backslash, if items go on with `rests`."""
        found = self._quoted
        for byte, meant in (*_ESCAPES.items(), (b"u", b"")):
            if any(rest.startswith(meant) for rest in rests):
                found = found | self._beginning_with(byte[0])
        return found

    def _beginning_with(self, byte: int) -> Any:
        """The mask of the tokens that begin with a byte."""
        if byte not in self._first:
            self._first[byte] = self._packed(self._tokens.begin_with(byte))
        return self._first[byte]

    def _prefixes_of(self, text: bytes) -> Iterator[int]:
        """The tokens that `text` begins with."""
        for end in range(1, min(len(text), self.longest) + 1):
            yield from self._plain.get(text[:end])

    def _beginning(self, position: ItemPosition) -> set[int]:
        """Those after which an item that has begun is the beginning of another one, or is one."""
        text = position.text
        found: set[int] = set()
        items = position.items or frozenset()
        if text == b"-":
            found.update(self._prefixes_of(b"0"))  # equal to an item without the sign
        if position.closed or text.isdigit():
            for item in (*items, text):
                for end in range(1, min(len(item), self.longest) + 1):
                    found.update(self.commas.get(item[:end], ()))
        for item in items:
            if item[:1] == b'"':
                for end in range(1, min(len(item), self.longest) + 1):
                    found.update(self.tails.get(item[1:end], ()))
                found.update(self.wholes.get(item[1:], ()))
            elif item.startswith(text):
                rest = item[len(text) :]
                for end in range(1, min(len(rest), self.longest) + 1):
                    found.update(self.words.get(rest[:end], ()))
                found.update(self.heads.get(rest, ()))
        return found

    def _others(self, position: ItemPosition) -> Any:
        """The mask of those of which their bytes alone do not tell; None for all."""
        text = position.text
        if not text.isalpha() and any(mark in text for mark in (b".", b"e", b"E")):
            return None  # more digits may say the same
        if not text and not position.closed:
            return self._between
        whole = position.closed or (text.isdigit() and text not in (position.items or ()))
        return self._outer if whole else self._unknown


def _allowed(ids: Collection[int], words: Any) -> list[int]:
    """Those of some tokens that a mask has."""
    return [one for one in ids if int(words[one >> 5]) >> (one & 31) & 1]


def tokens_of(tokenizer: Tokenizer) -> ItemTokens:
    """The tokens of a tokenizer, sorted once."""
    return tokenizer.kept("item_tokens", lambda: ItemTokens(tokenizer))
