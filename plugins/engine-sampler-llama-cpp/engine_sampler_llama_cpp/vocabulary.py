"""The `Tokenizer` of a model that llama.cpp has loaded, built through llama.cpp's own functions."""

from __future__ import annotations

import codecs
import ctypes
from collections.abc import Sequence
from typing import Any

from engine_sampler import Tokenizer
from engine_sampler.for_bridges import with_attributes

from .library import library

_LLAMA = "llama_cpp.Llama"


def tokenizer_of(llm: Any) -> Tokenizer:
    """The tokenizer of a `llama_cpp.Llama`.

    Every end-of-generation token of llama.cpp is an EOS token here, the model's own EOS first.
    """
    with_attributes(("model", "tokenize"), "llm", llm, "a llama_cpp.Llama")
    lib = library()

    tokenizer = tokenizer_of_vocabulary(lib.llama_model_get_vocab(llm.model), llm)
    tokenizer.kept(_LLAMA, lambda: llm)
    return tokenizer


def llama_of(tokenizer: Tokenizer | None) -> Any:
    """The `llama_cpp.Llama` that a tokenizer was made for by `tokenizer_of`; None for any other tokenizer."""
    return None if tokenizer is None else tokenizer.kept(_LLAMA, lambda: None)


def tokenizer_of_vocabulary(vocab: Any, owner: Any) -> Tokenizer:
    """The tokenizer of a `llama_vocab *`; it holds a reference to `owner`, which frees the vocabulary."""
    lib = library()

    size = lib.llama_vocab_n_tokens(vocab)
    no_text = lib.LLAMA_TOKEN_ATTR_CONTROL | lib.LLAMA_TOKEN_ATTR_UNKNOWN | lib.LLAMA_TOKEN_ATTR_UNUSED
    ends = [i for i in range(size) if lib.llama_vocab_is_eog(vocab, i)]

    def encode(text: str, owner: Any = owner) -> list[int]:
        return tokenize(vocab, text)

    eos, eot = lib.llama_vocab_eos(vocab), lib.llama_vocab_eot(vocab)
    return Tokenizer(
        [_piece(vocab, i) for i in range(size)],
        sorted(ends, key=lambda i: i != eos),
        [i for i in range(size) if lib.llama_vocab_get_attr(vocab, i) & no_text],
        eot if 0 <= eot < size else None,
        encode=encode,
    )


def tokenize(vocab: Any, text: str, *, special: bool = False) -> list[int]:
    """The ids of `text`; `special` adds BOS and the like if the model requires them, and parses the names of
    special tokens as these tokens."""
    lib = library()

    data = text.encode()
    capacity = len(data) + 2
    for _ in range(2):
        ids = (lib.llama_token * capacity)()
        count = lib.llama_tokenize(vocab, data, len(data), ids, capacity, special, special)
        if count >= 0:
            return list(ids[:count])
        capacity = -count
    raise ValueError(f"llama.cpp cannot tokenize {text[:40]!r}")


def ends_inside_character(tokenizer: Tokenizer, token_ids: Sequence[int]) -> bool:
    """Whether bytes of the last character of the tokens' text are still missing."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(b"".join(tokenizer.text_bytes(i) for i in token_ids[-3:])[-3:])
    return decoder.getstate()[0] != b""


def _piece(vocab: Any, token_id: int) -> bytes:
    """The bytes of a token; for a special token its name."""
    lib = library()

    capacity = 32
    for _ in range(2):
        buffer = ctypes.create_string_buffer(capacity)
        count = lib.llama_token_to_piece(vocab, token_id, buffer, capacity, 0, True)
        if count >= 0:
            return buffer.raw[:count]
        capacity = -count
    raise ValueError(f"llama.cpp has no text for token {token_id}")
