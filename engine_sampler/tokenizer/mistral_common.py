"""Vocabularies from mistral-common: Tekken, and the SentencePiece models that preceded it."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from ..base.arguments import file_of, with_attributes
from . import sentencepiece
from .table import TokenTable


def read(source: Any) -> TokenTable:
    """From a `MistralTokenizer`, the tokenizer inside it, or the path of a tokenizer file.

    Tekken's special tokens come first, followed by the tokens of its byte-level BPE by rank.
    """
    tokenizer = _load(source) if isinstance(source, (str, os.PathLike)) else _inside(source)
    if not hasattr(tokenizer, "id_to_byte_piece"):
        with_attributes(("file_path",), "tokenizer", tokenizer, "a MistralTokenizer, or the path of its file")
        return sentencepiece.read(tokenizer.file_path)
    special = tokenizer.special_ids
    token_bytes = [
        tokenizer.id_to_piece(i).encode() if i in special else tokenizer.id_to_byte_piece(i)
        for i in range(tokenizer.n_words)
    ]
    return TokenTable(token_bytes, (tokenizer.eos_id,), special, encode=partial(_encode, tokenizer))


def _load(path: str | os.PathLike[str]) -> Any:
    from mistral_common.tokens.tokenizers import (  # type: ignore[import-not-found,unused-ignore]
        sentencepiece as before_tekken,
    )
    from mistral_common.tokens.tokenizers import tekken  # type: ignore[import-not-found,unused-ignore]

    file = file_of(path)
    is_tekken = tekken.is_tekken(file)
    return tekken.Tekkenizer.from_file(file) if is_tekken else before_tekken.SentencePieceTokenizer(file)


def _inside(source: Any) -> Any:
    """The text tokenizer inside a chat tokenizer."""
    instruct = getattr(source, "instruct_tokenizer", source)
    return getattr(instruct, "tokenizer", instruct)


def _encode(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, bos=False, eos=False)
    return ids
