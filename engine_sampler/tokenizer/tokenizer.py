"""`Tokenizer`: everything that the library needs to know about a vocabulary."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..base.arguments import entries_of, integer_of, integers_of, not_allowed
from ..base.cached import cached_property
from ..base.errors import ParameterError
from .substrings import Substrings
from .table import warn_inexact

if TYPE_CHECKING:
    from .table import TokenTable

T = TypeVar("T")

_BYTES = "a list of bytes, one entry for each token"


class Tokenizer:
    """The bytes of every token, and which tokens are special.

    token_bytes        the bytes of token i, or b"" for a token without text. Those of a special token
                       are its name, which is never matched as text.
    eos_token_ids      tokens that end a text.
    special_token_ids  tokens that are not text; they include the EOS and end-of-turn ids.
    eot_token_id       the end-of-turn token, by default the first EOS id.
    added_token_ids    tokens that are text, and stand for their name wherever it marks a part of a message:
                       Qwen's `<tool_call>`, say. A marker is that token then, in masks of structural tags
                       and in parsing, and its name spelled in other tokens is not. None for a model that
                       writes markers in ordinary tokens.
    encode             the encoding of the model's own tokenizer, str -> list of ids; without it, the
                       longest matching token is taken at each position.

    Classmethods read all of this from other libraries; eos_token_ids, special_token_ids, eot_token_id and
    added_token_ids passed to them override what the source declares. The concatenated bytes of an encoded
    text are the text; one that was encoded with a dummy prefix begins with a space.

    Raises ValueError for ids outside the vocabulary.
    """

    _inexact: str | None = None
    """Why `encode` may give other ids than the source, until it has warned of that."""

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        eos_token_ids: Iterable[int] = (),
        special_token_ids: Iterable[int] = (),
        eot_token_id: int | None = None,
        *,
        encode: Callable[[str], list[int]] | None = None,
        added_token_ids: Iterable[int] = (),
    ) -> None:
        self.token_bytes = tuple(entries_of("token_bytes", token_bytes, _BYTES))
        if not all(issubclass(kind, bytes) for kind in set(map(type, self.token_bytes))):
            raise not_allowed("token_bytes", token_bytes, _BYTES)
        self.eos_token_ids = tuple(self._ids("eos_token_ids", eos_token_ids))
        if eot_token_id is not None:
            self._ids("eot_token_id", [integer_of("eot_token_id", eot_token_id)])
        if encode is not None and not callable(encode):
            raise not_allowed("encode", encode, "a function from a text to a list of ids, or None")
        if eot_token_id is None and self.eos_token_ids:
            eot_token_id = self.eos_token_ids[0]
        self.eot_token_id = eot_token_id
        ends = self.eos_token_ids if eot_token_id is None else (*self.eos_token_ids, eot_token_id)
        self.special_token_ids = frozenset(self._ids("special_token_ids", special_token_ids)).union(ends)
        self.added_token_ids = frozenset(self._ids("added_token_ids", added_token_ids))
        # The tokens without text, indexed by `skip_special_tokens`.
        self._silent = (frozenset(self.eos_token_ids), self.special_token_ids)
        self._encode = encode
        self._kept: dict[str, Any] = {}

    def _ids(self, name: str, value: Any) -> list[int]:
        """`value` as a list of ids of this vocabulary."""
        ids = integers_of(name, value)
        for token_id in ids:
            if not 0 <= token_id < len(self.token_bytes):
                raise ParameterError(f"{name}: token id {token_id} is outside 0..{len(self.token_bytes) - 1}")
        return ids

    def __repr__(self) -> str:
        ends = [f"{i} {self.token_bytes[i].decode(errors='replace')!r}" for i in self.eos_token_ids[:3]]
        special = len(self.special_token_ids)
        return f"<Tokenizer: {len(self)} tokens, {special} special, EOS {', '.join(ends) or None}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """What is kept under a name for as long as this tokenizer lives, made when it is first needed; a copy
        has none of it.

        It may refer to the tokenizer, which values of a WeakKeyDictionary would then keep alive for ever.
        """
        if name not in self._kept:
            self._kept[name] = make()
        value: T = self._kept[name]
        return value

    def __len__(self) -> int:
        return len(self.token_bytes)

    def encode(self, text: str) -> list[int]:
        """`text` as token ids, without special tokens."""
        if self._encode is not None:
            return list(self._encode(text))
        if self._inexact is not None:
            reason, self._inexact = self._inexact, None
            warn_inexact(reason)
        return self._longest_match(text.encode())

    def encode_bytes(self, data: bytes) -> list[int]:
        """`data` as token ids; data that is not valid UTF-8 is split by the longest match."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self._longest_match(data)
        return self.encode(text)

    def split_bytes(self, data: bytes) -> list[int]:
        """`data` in the middle of a text as token ids: as `encode` splits it, or by the longest match if
        `encode` puts a dummy prefix before a text. Raises ValueError if no tokens spell it."""
        ids = self.encode_bytes(data)
        spells = b"".join(self.token_bytes[token_id] for token_id in ids) == data
        return ids if spells else self._longest_match(data)

    @property
    def has_encoding(self) -> bool:
        """Whether the model's own encoding is known; else `encode` takes the longest matching token."""
        return self._encode is not None

    def certain_ids(self, data: bytes, is_whole: bool = False) -> list[int]:
        """The ids with which `encode` begins each text that begins with `data`, whatever follows; none if it
        does not begin with whole characters, or if `encode` puts a dummy prefix before a text.

        is_whole  whether nothing follows

        A token that goes on behind `data` begins where the rest of `data` is the beginning of a longer token.
        So what stands before each of these places, encoded by itself, agrees as far as is certain.
        """
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            text = data[: error.start].decode()  # the last character is not whole
        whole = text.encode()
        ids = self.encode(text) if text else []
        for start in range(max(0, len(whole) - self._longest), len(whole)):
            if (
                ids
                and not is_whole
                and whole[start] & 0xC0 != 0x80
                and self._begins_longer_token(data[start:])
            ):
                before = self.encode(whole[:start].decode()) if start else []
                ids = ids[: _common_length(ids, before)]
        spelled = b"".join(self.token_bytes[i] for i in ids)
        return ids if whole.startswith(spelled) else []

    def _begins_longer_token(self, data: bytes) -> bool:
        at = bisect_right(self._sorted, data)
        return at < len(self._sorted) and self._sorted[at].startswith(data)

    def decode(self, token_ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of `token_ids`; invalid UTF-8 becomes U+FFFD, EOS tokens have no text."""
        data = b"".join(self.text_bytes(t, skip_special_tokens) for t in token_ids)
        return data.decode("utf-8", errors="replace")

    def text_bytes(self, token_id: int, skip_special_tokens: bool = True) -> bytes:
        """The bytes that `token_id` adds to a text: none for EOS and for ids beyond the vocabulary."""
        if token_id in self._silent[skip_special_tokens] or not 0 <= token_id < len(self.token_bytes):
            return b""
        return self.token_bytes[token_id]

    def hidden_name(self, token_id: int, skip_special_tokens: bool = True) -> bytes:
        """The name of a special token that adds nothing to a text; b"" for other tokens."""
        return self.token_bytes[token_id] if token_id in self._silent[skip_special_tokens] else b""

    def special_ids(self, names: Iterable[str]) -> list[int]:
        """The special tokens that have one of these names."""
        ids = (i for name in names for i in self.markers.get(name, ()))
        return [i for i in ids if i in self.special_token_ids]

    def ids_of(self, data: bytes) -> tuple[int, ...]:
        """Every token with exactly the bytes `data`, special tokens excluded."""
        return self._by_bytes.get(data, ())

    @classmethod
    def from_transformers(
        cls,
        tokenizer: Any,
        eos_token_ids: int | Iterable[int] | None = None,
        special_token_ids: Iterable[int] | None = None,
        eot_token_id: int | None = None,
        added_token_ids: Iterable[int] | None = None,
    ) -> Tokenizer:
        """From a tokenizer of `transformers`: fast, SentencePiece, byte-level or mistral-common.

        A model may have more end tokens than its tokenizer declares: pass
        `model.generation_config.eos_token_id`. What `clean_up_tokenization_spaces` does to a text as a
        whole is left out: the spaces around a lone apostrophe stay, for example. Raises TypeError or
        ValueError for a tokenizer whose tokens have no bytes of their own.
        """
        from . import huggingface

        table = huggingface.from_transformers(tokenizer)
        return cls._from_table(table, eos_token_ids, special_token_ids, eot_token_id, added_token_ids)

    @classmethod
    def from_tokenizers(
        cls,
        tokenizer: Any,
        eos_token_ids: int | Iterable[int] = (),
        special_token_ids: Iterable[int] | None = None,
        eot_token_id: int | None = None,
        added_token_ids: Iterable[int] | None = None,
    ) -> Tokenizer:
        """From a `tokenizers.Tokenizer`, which does not declare an EOS token.

        It may be byte-level BPE, of SentencePiece's kind (Metaspace, byte fallback), WordPiece, or BPE with
        word ends. WordPiece has a space before every piece except "##" ones, and except those from which its
        decoder's cleanup takes it, such as "." and "'s".
        Raises ValueError for others, whose tokens have no bytes of their own.
        """
        from . import huggingface

        table = huggingface.from_tokenizers(tokenizer)
        return cls._from_table(table, eos_token_ids, special_token_ids, eot_token_id, added_token_ids)

    @classmethod
    def from_tiktoken(
        cls,
        encoding: Any,
        eos_token_ids: int | Iterable[int] | None = None,
        special_token_ids: Iterable[int] | None = None,
        eot_token_id: int | None = None,
    ) -> Tokenizer:
        """From a `tiktoken.Encoding` or its name; EOS is "<|endoftext|>", if it has that token."""
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
        """From a `SentencePieceProcessor` or the path of a model; unknown, control and unused pieces are
        special."""
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
        added_token_ids: Iterable[int] | None = None,
    ) -> Tokenizer:
        """From the path of a GGUF file, or from a `llama_cpp.Llama`, for which `vocab_only` suffices.

        Every token that ends a text for llama.cpp is EOS. A `Llama` splits texts itself; from a path,
        `encode` gives llama.cpp's ids for SentencePiece's BPE, Gemma's, WordPiece and nearly all kinds of
        byte-level BPE if `tokenizers` is installed. For others it takes the longest match, and warns once
        (UserWarning, with the reason). Raises ValueError for a file that is not GGUF or has no vocabulary
        of a supported kind; not for faults of what only `encode` needs.
        """
        from . import gguf

        table = gguf.read(source)
        return cls._from_table(table, eos_token_ids, special_token_ids, eot_token_id, added_token_ids)

    @classmethod
    def _from_table(
        cls,
        table: TokenTable,
        eos_token_ids: int | Iterable[int] | None,
        special_token_ids: Iterable[int] | None,
        eot_token_id: int | None,
        added_token_ids: Iterable[int] | None = None,
    ) -> Tokenizer:
        """The caller's values, where not None, override those of the source."""
        eos = table.eos_token_ids if eos_token_ids is None else eos_token_ids
        tokenizer = cls(
            table.token_bytes,
            (eos,) if isinstance(eos, (int, np.integer)) else eos,
            table.special_token_ids if special_token_ids is None else special_token_ids,
            table.eot_token_id if eot_token_id is None else eot_token_id,
            encode=table.encode,
            added_token_ids=table.added_token_ids if added_token_ids is None else added_token_ids,
        )
        tokenizer._inexact = table.inexact
        return tokenizer

    @cached_property
    def markers(self) -> dict[str, tuple[int, ...]]:
        """The tokens that stand for their names wherever these mark something, by name: special tokens, and
        those that were added to the vocabulary."""
        found: dict[str, tuple[int, ...]] = {}
        for i in sorted(self.special_token_ids | self.added_token_ids):
            name = self.token_bytes[i].decode(errors="replace")
            if name:
                found[name] = (*found.get(name, ()), i)
        return found

    @cached_property
    def marker_ids(self) -> frozenset[int]:
        """The tokens in `markers`."""
        return frozenset(i for ids in self.markers.values() for i in ids)

    def prepare(self) -> None:
        """Build now what the first text in a request's parameters would build: a few tenths of a second for
        131k tokens."""
        self._longest  # noqa: B018  (computed here)
        self.substrings.prepare()

    @cached_property
    def substrings(self) -> Substrings:
        """An index of the bytes of all tokens but the special ones."""
        return Substrings(self.token_bytes, self.special_token_ids)

    @cached_property
    def _by_bytes(self) -> dict[bytes, tuple[int, ...]]:
        special = self.special_token_ids
        ids = [i for i, data in enumerate(self.token_bytes) if data and i not in special]
        pieces = [self.token_bytes[i] for i in ids]
        table: dict[bytes, tuple[int, ...]] = dict(zip(reversed(pieces), zip(reversed(ids)), strict=True))
        if len(table) < len(ids):  # the tokens with bytes that others have come after the first one
            for i, data in zip(ids, pieces, strict=True):
                if table[data][0] != i:
                    table[data] = (*table[data], i)
        return table

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted(self._by_bytes)

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._by_bytes), default=0)

    def _longest_match(self, data: bytes) -> list[int]:
        ids = []
        start = 0
        while start < len(data):
            ends = range(min(start + self._longest, len(data)), start, -1)
            end = next((end for end in ends if data[start:end] in self._by_bytes), None)
            if end is None:
                raise ValueError(f"no token matches the start of {data[start : start + 16]!r}")
            ids.append(self._by_bytes[data[start:end]][0])
            start = end
        return ids


def _common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two lists have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def check_tokenizer(value: Any) -> None:
    """Raise `ParameterError` for an argument `tokenizer` that is neither a `Tokenizer` nor None."""
    if value is not None and not isinstance(value, Tokenizer):
        raise not_allowed("tokenizer", value, "a Tokenizer, which Tokenizer.from_… makes of others', or None")
