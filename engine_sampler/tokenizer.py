"""`Tokenizer`: what the library needs to know of a vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any


class Tokenizer:
    """The bytes of every token, and which tokens are special.

    token_bytes        the bytes of token i, or b"" for a token without text. For a special token
                       its name, which is never matched as text.
    eos_token_ids      tokens that end a text.
    special_token_ids  tokens that are no text; the EOS ids belong to them.
    eot_token_id       the end-of-turn token, default the first EOS id.
    encode             how the model's own tokenizer splits a text, str -> list of ids; without it,
                       the longest matching token is taken again and again.

    Raises ValueError for ids outside the vocabulary.
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        eos_token_ids: Iterable[int] = (),
        special_token_ids: Iterable[int] = (),
        eot_token_id: int | None = None,
        *,
        encode: Callable[[str], list[int]] | None = None,
    ) -> None:
        self.token_bytes = tuple(token_bytes)
        self.eos_token_ids = tuple(eos_token_ids)
        self.special_token_ids = frozenset(special_token_ids) | frozenset(self.eos_token_ids)
        self.eot_token_id = eot_token_id
        if eot_token_id is None and self.eos_token_ids:
            self.eot_token_id = self.eos_token_ids[0]
        for token_id in self.special_token_ids:
            if not 0 <= token_id < len(self.token_bytes):
                raise ValueError(f"token id {token_id} is outside 0..{len(self.token_bytes) - 1}")
        self._encode = encode

    def __len__(self) -> int:
        return len(self.token_bytes)

    def encode(self, text: str) -> list[int]:
        """`text` as token ids, without special tokens."""
        if self._encode is not None:
            return list(self._encode(text))
        return self._longest_match(text.encode())

    def decode(self, token_ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of `token_ids`; broken UTF-8 becomes U+FFFD, EOS tokens have no text."""
        data = b"".join(self.text_bytes(t, skip_special_tokens) for t in token_ids)
        return data.decode("utf-8", errors="replace")

    def text_bytes(self, token_id: int, skip_special_tokens: bool = True) -> bytes:
        """The bytes that `token_id` adds to a text: none for EOS, and for ids beyond the vocabulary."""
        if token_id in self.eos_token_ids or not 0 <= token_id < len(self.token_bytes):
            return b""
        if skip_special_tokens and token_id in self.special_token_ids:
            return b""
        return self.token_bytes[token_id]

    def ids_of(self, data: bytes) -> tuple[int, ...]:
        """Every token whose bytes are exactly `data`, special tokens excluded."""
        return self._by_bytes.get(data, ())

    @classmethod
    def from_tokenizers(cls, tokenizer: Any, eos_token_ids: Iterable[int] = ()) -> Tokenizer:
        """From a byte-level BPE tokenizer of the `tokenizers` library (`tokenizers.Tokenizer`)."""
        added = tokenizer.get_added_tokens_decoder()
        special = {i for i, token in added.items() if token.special}
        byte_of = {char: byte for byte, char in _byte_level_alphabet().items()}
        token_bytes = []
        for i in range(tokenizer.get_vocab_size()):
            piece = tokenizer.id_to_token(i)
            in_alphabet = i not in added and all(char in byte_of for char in piece)
            token_bytes.append(bytes(byte_of[c] for c in piece) if in_alphabet else piece.encode())

        def encode(text: str) -> list[int]:
            ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
            return ids

        return cls(token_bytes, eos_token_ids, special, encode=encode)

    @cached_property
    def _by_bytes(self) -> dict[bytes, tuple[int, ...]]:
        table: dict[bytes, tuple[int, ...]] = {}
        for i, data in enumerate(self.token_bytes):
            if data and i not in self.special_token_ids:
                table[data] = (*table.get(data, ()), i)
        return table

    def _longest_match(self, data: bytes) -> list[int]:
        longest = max(map(len, self._by_bytes), default=0)
        ids = []
        while data:
            for length in range(min(longest, len(data)), 0, -1):
                if found := self._by_bytes.get(data[:length]):
                    ids.append(found[0])
                    data = data[length:]
                    break
            else:
                raise ValueError(f"no token begins {data[:16]!r}")
        return ids


def _byte_level_alphabet() -> dict[int, str]:
    """The printable character that stands for each byte in byte-level BPE (GPT-2)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}
