"""Vocabularies from SentencePiece: unigram and BPE, with and without byte fallback."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from ..base.arguments import file_of, with_attributes
from .pieces import literal, sentence_piece
from .table import TokenTable

_ALLOWED = "a SentencePieceProcessor, or the path of a model"


def read(source: Any) -> TokenTable:
    """From a `SentencePieceProcessor`, or the path of its model file.

    Control, unknown and unused pieces are special. "▁x" is b" x" everywhere, so a text that was
    encoded with a dummy prefix begins with a space, which the processor's own decode drops.
    """
    processor = _load(source) if isinstance(source, (str, os.PathLike)) else source
    with_attributes(("get_piece_size", "id_to_piece"), "processor", processor, _ALLOWED)
    ids = list(range(processor.get_piece_size()))
    kinds = zip(processor.is_control(ids), processor.is_unknown(ids), processor.is_unused(ids), strict=True)
    special = [i for i, kind in enumerate(kinds) if any(kind)]
    pieces = processor.id_to_piece(ids)
    token_bytes = [sentence_piece(piece) for piece in pieces]
    for i in special:
        token_bytes[i] = literal(pieces[i])
    eos = processor.eos_id()  # -1 if there is none
    return TokenTable(token_bytes, () if eos < 0 else (eos,), special, encode=partial(_encode, processor))


def _load(path: str | os.PathLike[str]) -> Any:
    import sentencepiece  # type: ignore[import-not-found,unused-ignore]

    return sentencepiece.SentencePieceProcessor(model_file=file_of(path))


def _encode(processor: Any, text: str) -> list[int]:
    ids: list[int] = processor.encode(text, out_type=int, add_bos=False, add_eos=False)
    return ids
