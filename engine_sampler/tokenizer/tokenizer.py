"""`Tokenizer`: what the library needs to know of a vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .table import TokenTable


class Tokenizer:
    """The bytes of every token, and which tokens are special.

    token_bytes        the bytes of token i, or b"" for a token without text. For a special token
                       its name, which is never matched as text.
    eos_token_ids      tokens that end a text.
    special_token_ids  tokens that are no text; EOS and end-of-turn ids belong to them.
    eot_token_id       the end-of-turn token, default the first EOS id.
    encode             how the model's own tokenizer splits a text, str -> list of ids; without it,
                       the longest matching token is taken again and again.

    Classmethods read all of this from other libraries; eos_token_ids, special_token_ids and
    eot_token_id given there stand instead of what the source says. Joined, the bytes of an encoded
    text are the text; one that was encoded behind a dummy prefix begins with a space.

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
        self._silent = (frozenset(self.eos_token_ids), self.special_token_ids)  # without, with skipping
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
        if token_id in self._silent[skip_special_tokens] or not 0 <= token_id < len(self.token_bytes):
            return b""
        return self.token_bytes[token_id]

    def ids_of(self, data: bytes) -> tuple[int, ...]:
        """Every token whose bytes are exactly `data`, special tokens excluded."""
        return self._by_bytes.get(data, ())

    @classmethod
    def from_transformers(
        cls,
        tokenizer: Any,
        eos_token_ids: int | Iterable[int] | None = None,
        special_token_ids: Iterable[int] | None = None,
        eot_token_id: int | None = None,
    ) -> Tokenizer:
        """From a tokenizer of `transformers`: fast, around SentencePiece, byte-level or mistral-common.

        A model may end a text with more tokens than its tokenizer knows: give
        `model.generation_config.eos_token_id`. Raises TypeError or ValueError for a tokenizer whose
        tokens have no bytes of their own.
        """
        from . import huggingface

        table = huggingface.from_transformers(tokenizer)
        return cls._from_table(table, eos_token_ids, special_token_ids, eot_token_id)

    @classmethod
    def from_tokenizers(
        cls,
        tokenizer: Any,
        eos_token_ids: int | Iterable[int] = (),
        special_token_ids: Iterable[int] | None = None,
        eot_token_id: int | None = None,
    ) -> Tokenizer:
        """From a `tokenizers.Tokenizer`, which knows no EOS.

        It may be byte-level BPE, of SentencePiece's kind (Metaspace, byte fallback), WordPiece (a space
        before every piece but "##" ones; its decoder's cleanup is left out) or BPE with word ends.
        Raises ValueError for others, whose tokens have no bytes of their own.
        """
        from . import huggingface

        table = huggingface.from_tokenizers(tokenizer)
        return cls._from_table(table, eos_token_ids, special_token_ids, eot_token_id)

    @classmethod
    def from_tiktoken(
        cls,
        encoding: Any,
        eos_token_ids: int | Iterable[int] | None = None,
        special_token_ids: Iterable[int] | None = None,
        eot_token_id: int | None = None,
    ) -> Tokenizer:
        """From a `tiktoken.Encoding` or its name; EOS is "<|endoftext|>" where it has one."""
        from . import tiktoken

        table = tiktoken.read(encoding)
        return cls._from_table(table, eos_token_ids, special_token_ids, eot_token_id)

    @classmethod
    def from_sentencepiece(
        cls,
        processor: Any,
        eos_token_ids: int | Iterable[int] | None = None,
        special_token_ids: Iterable[int] | None = None,
        eot_token_id: int | None = None,
    ) -> Tokenizer:
        """From a `SentencePieceProcessor` or the path of a model; unknown, control, unused are special."""
        from . import sentencepiece

        table = sentencepiece.read(processor)
        return cls._from_table(table, eos_token_ids, special_token_ids, eot_token_id)

    @classmethod
    def from_mistral_common(
        cls,
        tokenizer: Any,
        eos_token_ids: int | Iterable[int] | None = None,
        special_token_ids: Iterable[int] | None = None,
        eot_token_id: int | None = None,
    ) -> Tokenizer:
        """From a `MistralTokenizer`, the tokenizer inside it, or the path of its file."""
        from . import mistral_common

        table = mistral_common.read(tokenizer)
        return cls._from_table(table, eos_token_ids, special_token_ids, eot_token_id)

    @classmethod
    def from_gguf(
        cls,
        source: Any,
        eos_token_ids: int | Iterable[int] | None = None,
        special_token_ids: Iterable[int] | None = None,
        eot_token_id: int | None = None,
    ) -> Tokenizer:
        """From the path of a GGUF file, or a `llama_cpp.Llama`, whose `vocab_only` is enough.

        Every token that ends a text for llama.cpp is EOS. A `Llama` splits texts itself; from a path,
        `encode` is exact for SentencePiece's BPE and the usual byte-level ones where `tokenizers` is
        installed, and the longest match for others. Raises ValueError for a file that is no GGUF or
        has no vocabulary of a known kind.
        """
        from . import gguf

        table = gguf.read(source)
        return cls._from_table(table, eos_token_ids, special_token_ids, eot_token_id)

    @classmethod
    def _from_table(
        cls,
        table: TokenTable,
        eos_token_ids: int | Iterable[int] | None,
        special_token_ids: Iterable[int] | None,
        eot_token_id: int | None,
    ) -> Tokenizer:
        """What the caller gives (not None) stands instead of what the source says."""
        eos = table.eos_token_ids if eos_token_ids is None else eos_token_ids
        return cls(
            table.token_bytes,
            (eos,) if isinstance(eos, int) else eos,
            table.special_token_ids if special_token_ids is None else special_token_ids,
            table.eot_token_id if eot_token_id is None else eot_token_id,
            encode=table.encode,
        )

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
