"""Vocabularies from tiktoken: an `Encoding` provides the bytes of every token."""

from __future__ import annotations

from typing import Any

from ..base.arguments import with_attributes
from .table import TokenTable

END = "<|endoftext|>"


def read(encoding: Any) -> TokenTable:
    """From a `tiktoken.Encoding` or its name; "<|endoftext|>", if it has that token, ends a text."""
    if isinstance(encoding, str):
        import tiktoken  # type: ignore[import-not-found,unused-ignore]

        encoding = tiktoken.get_encoding(encoding)
    with_attributes(
        ("special_tokens_set", "n_vocab"), "encoding", encoding, "a tiktoken.Encoding or its name"
    )
    special = {name: encoding.encode_single_token(name) for name in encoding.special_tokens_set}
    token_bytes = [_bytes_of(encoding, i) for i in range(encoding.n_vocab)]
    eos = (special[END],) if END in special else ()
    return TokenTable(token_bytes, eos, special.values(), encode=encoding.encode_ordinary)


def _bytes_of(encoding: Any, token_id: int) -> bytes:
    """The bytes of a token, which for a special one are its name; b"" for a gap in the ids."""
    try:
        data: bytes = encoding.decode_single_token_bytes(token_id)
    except KeyError:
        return b""
    return data
