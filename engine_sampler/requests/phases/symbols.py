"""Tokens as symbols: the bytes of text, and special tokens, which are no text."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ...base.errors import ParameterError, quoted
from ...tokenizer import Tokenizer

Symbols: TypeAlias = str
"""A character for each byte, the first 256 of Unicode, and one for each special token, from `SPECIAL` on."""

SPECIAL = 256
"""The character of a special token is this plus its id."""

MAX_UNFINISHED = 3
"""The most bytes of a character that has not ended."""


class SymbolTable:
    """The symbols of the tokens of one tokenizer; made once for each."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._bytes = tokenizer.token_bytes
        self._special = tokenizer.special_token_ids
        self._names = {name: i for i in sorted(self._special) if (name := self._bytes[i])}
        self._longest = max(map(len, self._names), default=0)
        self._starts = {name[0] for name in self._names}
        self._first = np.array([data[0] if data else -1 for data in self._bytes], np.int16)
        """The first byte of every token; −1 for one that has none."""
        self._first[sorted(self._special)] = -1

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> SymbolTable:
        """The table of `tokenizer`: the same object each time."""
        kept: SymbolTable = tokenizer.kept("phases", lambda: cls(tokenizer))
        return kept

    def symbols(self, token_id: int) -> Symbols:
        """The symbols of a token; none for one without bytes, or beyond the tokenizer's."""
        if token_id in self._special:
            return chr(SPECIAL + token_id)
        return self._bytes[token_id].decode("latin-1") if token_id < len(self._bytes) else ""

    def parse(self, text: str) -> Symbols:
        """The symbols of a text, in which names of special tokens stand for these, the longest first."""
        data, symbols, at = text.encode(), [], 0
        if self._starts.isdisjoint(data):
            return data.decode("latin-1")
        while at < len(data):
            name = self._name_at(data, at)
            symbols.append(chr(data[at] if name is None else SPECIAL + self._names[name]))
            at += 1 if name is None else len(name)
        return "".join(symbols)

    def encode(self, parameter: str, symbols: Symbols) -> tuple[int, ...]:
        """Token ids with these symbols. Raises `ParameterError`, which names `parameter`, if there are
        none."""
        ids: list[int] = []
        begin = 0
        for end, symbol in enumerate((*symbols, chr(SPECIAL))):
            if ord(symbol) < SPECIAL:
                continue
            if end > begin:
                ids += self._encode_bytes(parameter, symbols[begin:end].encode("latin-1"))
            ids += [ord(symbol) - SPECIAL] if end < len(symbols) else []
            begin = end + 1
        return tuple(ids)

    def single(self, text: str) -> tuple[int, ...]:
        """The tokens that are `text` as a whole, special ones first."""
        data = text.encode()
        return (self._names[data],) if data in self._names else self._tokenizer.ids_of(data)

    def completing(self, symbols: Symbols) -> np.ndarray:
        """Ids of tokens, int64, ascending, in which `symbols` may end: all of those, and perhaps others."""
        last, *before = map(ord, symbols[-1:-3:-1])
        if last >= SPECIAL:
            return np.array([last - SPECIAL], np.int64)
        found = self._first == last
        if before and before[0] < SPECIAL:
            found[self._tokenizer.substrings.containing(bytes((before[0], last)))] = True
        return np.flatnonzero(found)

    def _name_at(self, data: bytes, at: int) -> bytes | None:
        if data[at] not in self._starts:
            return None
        ends = range(min(at + self._longest, len(data)), at, -1)
        return next((data[at:end] for end in ends if data[at:end] in self._names), None)

    def _encode_bytes(self, parameter: str, data: bytes) -> list[int]:
        try:
            ids = list(self._tokenizer.encode_bytes(data))
        except ValueError as error:
            raise ParameterError(f"{parameter}: {quoted(data)} cannot be encoded: {error}") from None
        if not ids:
            raise ParameterError(f"{parameter}: {quoted(data)} has no tokens")
        return ids


def is_unfinished(symbols: Symbols) -> bool:
    """Whether `symbols` end within a character of UTF-8, as far as their last bytes tell."""
    for count, symbol in enumerate(map(ord, symbols[: -MAX_UNFINISHED - 1 : -1]), 1):
        if symbol >= SPECIAL or symbol < 0x80:
            return False
        if symbol >= 0xC0:
            return count < (2 if symbol < 0xE0 else 3 if symbol < 0xF0 else 4)
    return False
