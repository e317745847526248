"""The bytes of all tokens of a tokenizer, end to end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...tokenizer import Tokenizer

DIGITS = b"0123456789"
LETTERS = bytes(byte for byte in range(256) if bytes((byte,)).isalpha())


class TokenTexts:
    """The bytes of all tokens, end to end.

    data     the bytes
    offsets  where each token begins in them, and where the last one ends, int64 `[tokens + 1]`
    usual    which tokens are neither empty, special nor EOS, bool `[tokens]`
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        pieces = tokenizer.token_bytes
        self.data = b"".join(pieces)
        self.offsets = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)), out=self.offsets[1:])
        self.usual: npt.NDArray[np.bool_] = np.diff(self.offsets) > 0
        self.usual[[*tokenizer.special_token_ids, *tokenizer.eos_token_ids]] = False

    @property
    def text(self) -> npt.NDArray[np.uint8]:
        """`data` as numbers."""
        return np.frombuffer(self.data, np.uint8)

    def begin_with(self, byte: int) -> npt.NDArray[np.bool_]:
        """Which of the usual tokens begin with a byte."""
        first = np.append(self.text, np.uint8(0))[self.offsets[:-1]]
        return (first == byte) & self.usual

    def count(self, bytes_: bytes) -> npt.NDArray[np.int64]:
        """How many of some bytes each token has."""
        full = np.flatnonzero(np.diff(self.offsets))
        found = np.zeros(len(self.usual), np.int64)
        if len(full):
            found[full] = np.add.reduceat(self._among(bytes_), self.offsets[full], dtype=np.int32)
        return found

    def behind(self, bytes_: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where each token goes on behind those of some bytes that it begins with, and with how many."""
        others = np.append(np.flatnonzero(~self._among(bytes_)), len(self.data))
        starts = others[np.searchsorted(others, self.offsets[:-1])]
        return starts, np.maximum(self.offsets[1:] - starts, 0)

    def _among(self, bytes_: bytes) -> npt.NDArray[np.bool_]:
        """Which of all bytes are among some."""
        known = np.zeros(256, np.bool_)
        known[np.frombuffer(bytes_, np.uint8)] = True
        return known[self.text]

    def with_byte(self, byte: bytes) -> npt.NDArray[np.int64]:
        """The usual tokens with a byte, ascending."""
        places = np.flatnonzero(self.text == byte[0])
        found = np.unique(np.searchsorted(self.offsets[1:], places, side="right"))
        return found[self.usual[found]]


class TokensByText:
    """Tokens by their bytes from a place in each on, sorted when the first byte of one is first asked for.

    starts  the places in the bytes of all
    chosen  which tokens
    """

    def __init__(
        self, tokens: TokenTexts, starts: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]
    ) -> None:
        self._tokens, self._starts = tokens, starts
        self._ids = np.flatnonzero(chosen & (starts < tokens.offsets[1:]))
        self._first = tokens.text[starts[self._ids]]
        self._tables: dict[int, dict[bytes, list[int]]] = {}

    def get(self, text: bytes) -> Sequence[int]:
        """The tokens with these bytes, at least one."""
        table = self._tables.get(text[0])
        if table is None:
            table = self._tables[text[0]] = {}
            data, ends = self._tokens.data, self._tokens.offsets[1:]
            ids = self._ids[self._first == text[0]]
            places = zip(ids.tolist(), self._starts[ids].tolist(), ends[ids].tolist(), strict=True)
            for token_id, start, end in places:
                table.setdefault(data[start:end], []).append(token_id)
        return table.get(text, ())


def texts_of(tokenizer: Tokenizer) -> TokenTexts:
    """The bytes of a tokenizer's tokens, put together once."""
    return tokenizer.kept("token_texts", lambda: TokenTexts(tokenizer))
