"""The bytes of all tokens of a tokenizer, end to end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...tokenizer import Tokenizer


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

    def with_byte(self, bytes_: bytes) -> npt.NDArray[np.int64]:
        """The usual tokens with a byte, or with one of several, ascending."""
        table = bytes(byte in bytes_ for byte in range(256))
        places = np.flatnonzero(np.frombuffer(self.data.translate(table), np.uint8))
        found = np.searchsorted(self.offsets[1:], places, side="right")
        found = found[np.diff(found, prepend=-1) > 0]  # np.unique would load numpy.ma
        return found[self.usual[found]]


def texts_of(tokenizer: Tokenizer) -> TokenTexts:
    """The bytes of a tokenizer's tokens, put together once."""
    return tokenizer.kept("token_texts", lambda: TokenTexts(tokenizer))
