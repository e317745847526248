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
    special_token_ids  tokens that are no text; EOS and end-of-turn ids belong to them.
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
        if eot_token_id is None and self.eos_token_ids:
            eot_token_id = self.eos_token_ids[0]
        self.eot_token_id = eot_token_id
        ends = self.eos_token_ids if eot_token_id is None else (*self.eos_token_ids, eot_token_id)
        self.special_token_ids = frozenset(special_token_ids).union(ends)
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

    def encode_bytes(self, data: bytes) -> list[int]:
        """`data` as token ids; what is no whole UTF-8 goes by the longest match."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self._longest_match(data)
        return self.encode(text)

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
        """From a `tokenizers.Tokenizer` that is byte-level BPE (GPT-2) or of SentencePiece's kind.

        Raises ValueError for others, whose tokens have no bytes of their own.
        """
        added = tokenizer.get_added_tokens_decoder()
        bytes_of = _decoding(tokenizer)
        vocab = tokenizer.get_vocab()
        token_bytes = [b""] * (max(vocab.values(), default=-1) + 1)  # ids may have gaps
        for piece, i in vocab.items():
            token_bytes[i] = piece.encode() if i in added else bytes_of(piece)

        def encode(text: str) -> list[int]:
            ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
            return ids

        special = (i for i, token in added.items() if token.special)
        return cls(token_bytes, eos_token_ids, special, encode=encode)

    @classmethod
    def from_transformers(cls, tokenizer: Any) -> Tokenizer:
        """From a fast tokenizer of `transformers`, with its EOS id."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise TypeError(f"{type(tokenizer).__name__} is no fast tokenizer: it has no backend_tokenizer")
        eos = tokenizer.eos_token_id
        return cls.from_tokenizers(backend, () if eos is None else (eos,))

    @cached_property
    def _by_bytes(self) -> dict[bytes, tuple[int, ...]]:
        table: dict[bytes, tuple[int, ...]] = {}
        for i, data in enumerate(self.token_bytes):
            if data and i not in self.special_token_ids:
                table[data] = (*table.get(data, ()), i)
        return table

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._by_bytes), default=0)

    def _longest_match(self, data: bytes) -> list[int]:
        ids = []
        at = 0
        while at < len(data):
            ends = range(min(at + self._longest, len(data)), at, -1)
            end = next((end for end in ends if data[at:end] in self._by_bytes), None)
            if end is None:
                raise ValueError(f"no token begins {data[at : at + 16]!r}")
            ids.append(self._by_bytes[data[at:end]][0])
            at = end
        return ids


def _decoding(tokenizer: Any) -> Callable[[str], bytes]:
    """How a `tokenizers.Tokenizer` writes a token's bytes as its name, undone."""
    parts = f"{tokenizer.pre_tokenizer} {tokenizer.decoder}"
    if "ByteLevel" in parts:
        return _byte_level
    if "ByteFallback" in parts or "Metaspace" in parts:
        return _sentence_piece
    raise ValueError(f"the tokens of this tokenizer have no bytes of their own (it has {parts})")


def _byte_level(piece: str) -> bytes:
    """A character per byte; a name with other characters is taken as it is."""
    try:
        return bytes(_BYTE_OF[char] for char in piece)
    except KeyError:
        return piece.encode()


def _sentence_piece(piece: str) -> bytes:
    """A "▁" for each space, a name such as "<0x0A>" for a byte."""
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes.fromhex(piece[3:5])
    return piece.replace("▁", " ").encode()


def _byte_level_alphabet() -> dict[int, str]:
    """The printable character that stands for each byte in byte-level BPE (GPT-2)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}


_BYTE_OF = {char: byte for byte, char in _byte_level_alphabet().items()}
