"""Text of one request, streamed: tokens in, deltas out, incomplete UTF-8 held back."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from .tokenizer import Tokenizer

_Decoder = codecs.getincrementaldecoder("utf-8")


class TextStream:
    """Decodes token by token. The deltas, with `flush` at the end, join to `Tokenizer.decode`.

    Broken UTF-8 becomes U+FFFD; bytes that may still become a character wait. Work per token does
    not depend on the length of the text.
    """

    __slots__ = ("_decoder", "_marks", "_skip_special", "_tokenizer", "pieces")

    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special_tokens
        self._decoder = _Decoder(errors="replace")
        self.pieces: list[str] = []
        """The delta of every token."""
        self._marks: list[tuple[bytes, int]] = []
        """The decoder's state before every token."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def push(self, token_ids: Sequence[int]) -> str:
        """The text that `token_ids` complete."""
        start = len(self.pieces)
        for token_id in token_ids:
            self._marks.append(self._decoder.getstate())
            data = self._tokenizer.text_bytes(token_id, self._skip_special)
            self.pieces.append(self._decoder.decode(data))
        return "".join(self.pieces[start:])

    def flush(self) -> str:
        """What was held back, as U+FFFD if it is no whole character; the text ends here."""
        rest = self._decoder.decode(b"", final=True)
        if rest:
            self.pieces[-1] += rest
        return rest

    def rollback(self, n: int) -> None:
        """Forget the last n tokens."""
        if n:
            self._decoder.setstate(self._marks[-n])
            del self._marks[-n:], self.pieces[-n:]

    def fork(self) -> TextStream:
        child = TextStream(self._tokenizer, self._skip_special)
        child._decoder.setstate(self._decoder.getstate())
        child.pieces, child._marks = self.pieces.copy(), self._marks.copy()
        return child
