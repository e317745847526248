"""Vocabularies from Hugging Face: `tokenizers` and `transformers`, fast and slow."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..base.arguments import with_attributes
from . import mistral_common
from .pieces import Decode, byte_level, byte_of_name, literal, sentence_piece
from .table import TokenTable


def from_tokenizers(tokenizer: Any) -> TokenTable:
    """From a `tokenizers.Tokenizer`, whose decoder determines how its pieces are converted."""
    with_attributes(
        ("decoder", "pre_tokenizer", "get_vocab"), "tokenizer", tokenizer, "a tokenizers.Tokenizer"
    )
    decoder = _steps(tokenizer.decoder, "decoders") or _steps(tokenizer.pre_tokenizer, "pretokenizers")
    tokens = tokenizer.get_added_tokens_decoder()
    special = {i: token.content for i, token in tokens.items() if token.special}
    added = {i: tokenizer.id_to_token(i) for i in tokens if i not in special}  # as matched in the text
    token_bytes = _token_bytes(tokenizer.get_vocab(), added, special, _decoding(decoder))
    encode = partial(_encode, tokenizer)
    return TokenTable(token_bytes, (), list(special), encode=encode, added_token_ids=list(added))


def from_transformers(tokenizer: Any) -> TokenTable:
    """From a tokenizer of `transformers`, with its EOS id and all its special ids."""
    inner = getattr(tokenizer, "tokenizer", None)
    if hasattr(inner, "instruct_tokenizer"):
        return mistral_common.read(inner)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    table = _from_slow(tokenizer) if backend is None else from_tokenizers(backend)
    special = {*table.special_token_ids, *getattr(tokenizer, "all_special_ids", ())}
    eos = getattr(tokenizer, "eos_token_id", None)
    return table._replace(eos_token_ids=() if eos is None else (eos,), special_token_ids=special)


def _from_slow(tokenizer: Any) -> TokenTable:
    """From a tokenizer written in Python: a wrapper of SentencePiece, or a byte-level one."""
    if hasattr(tokenizer, "sp_model"):
        decode: Decode = sentence_piece
    elif hasattr(tokenizer, "byte_decoder"):
        decode = byte_level
    elif hasattr(tokenizer, "_utf_vocab_size"):  # ByT5 and Perceiver: every byte is a token
        decode = _one_byte
    else:
        raise TypeError(
            f"the tokens of {type(tokenizer).__name__} have no bytes of their own: it is neither a fast "
            "tokenizer (backend_tokenizer), nor SentencePiece (sp_model), nor byte-level (byte_decoder)"
        )
    tokens = tokenizer.added_tokens_decoder
    special = {i: token.content for i, token in tokens.items() if token.special}
    added = {i: token.content for i, token in tokens.items() if i not in special}
    token_bytes = _token_bytes(tokenizer.get_vocab(), added, special, decode)
    encode = partial(_encode_slowly, tokenizer)
    return TokenTable(token_bytes, (), list(special), encode=encode, added_token_ids=list(added))


def _token_bytes(
    vocab: Mapping[str, int], added: Mapping[int, str], special: Mapping[int, str], decode: Decode
) -> list[bytes]:
    """The bytes of every id. Those of a special token are its name. A token added to a byte-level
    vocabulary is literal text, even if its characters also represent bytes; one added to a vocabulary of
    SentencePiece's kind is written as a piece."""
    token_bytes = [b""] * (max(vocab.values(), default=-1) + 1)  # ids may have gaps
    for piece, i in vocab.items():
        token_bytes[i] = decode(piece)
    decode_added = literal if decode in (byte_level, _one_byte) else decode
    for i, text in added.items():
        token_bytes[i] = decode_added(text)
    for i, name in special.items():
        token_bytes[i] = literal(name)
    return token_bytes


def _steps(component: Any, parts: str) -> list[dict[str, Any]]:
    """The steps of a decoder or a pre-tokenizer, in the form that they have in tokenizer.json."""
    if component is None:
        return []
    step = json.loads(component.__getstate__())
    return step[parts] if step["type"] == "Sequence" else [step]


def _decoding(steps: list[dict[str, Any]]) -> Decode:
    """How a decoder converts a single piece.

    A space that it strips from the front of a whole text stays on the piece: "▁x" is b" x".
    """
    kinds = [step["type"] for step in steps]
    if "ByteLevel" in kinds:
        return byte_level
    strips_pieces = "Strip" in kinds and "Fuse" not in kinds[: kinds.index("Strip")]
    conversions = [conversion for step in steps if (conversion := _conversion(step))]
    if not steps or len(conversions) < len(steps) or strips_pieces:
        raise ValueError(
            f"the tokens of this tokenizer have no bytes of their own (its decoder is {kinds or None})"
        )
    has_byte_names = not {"ByteFallback", "Metaspace"}.isdisjoint(kinds)
    return partial(_convert, [c for c in conversions if c is not str], has_byte_names)


def _conversion(step: dict[str, Any]) -> Callable[[str], str] | None:
    """How one step converts a piece; None for a step that needs the whole text."""
    match step:
        case {"type": "Replace", "pattern": {"String": old}, "content": new}:
            return lambda piece: piece.replace(old, new)
        case {"type": "Metaspace", "replacement": space}:
            return lambda piece: piece.replace(space, " ")
        case {"type": "BPEDecoder", "suffix": end}:
            return lambda piece: piece.replace(end, " ")
        case {"type": "WordPiece", "prefix": inside, "cleanup": cleans_up}:
            return partial(_word_piece, inside, _CLEANED_UP if cleans_up else {})
        case {"type": "ByteFallback" | "Fuse" | "Strip"}:  # these affect bytes, or the text as a whole
            return str
    return None


def _word_piece(inside: str, replaced: Mapping[str, str], piece: str) -> str:
    """A piece of WordPiece: one that begins with `inside` continues a word, all others begin one."""
    text = piece[len(inside) :] if piece.startswith(inside) else f" {piece}"
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


_CLEANED_UP = {
    **{f" {mark}": mark for mark in ".?!,"},
    " ' ": "'",
    " n't": "n't",
    " 'm": "'m",
    " do not": " don't",
    **{f" {ending}": ending for ending in ("'s", "'ve", "'re")},
}
"""What a WordPiece decoder with cleanup replaces, within each piece by itself and in this order."""


def _convert(conversions: list[Callable[[str], str]], has_byte_names: bool, piece: str) -> bytes:
    byte = byte_of_name(piece) if has_byte_names else None
    if byte is not None:
        return byte
    for conversion in conversions:
        piece = conversion(piece)
    return literal(piece)


def _one_byte(piece: str) -> bytes:
    """One character represents one byte; longer pieces are names."""
    return bytes((ord(piece),)) if len(piece) == 1 and ord(piece) < 256 else literal(piece)


def _encode(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def _encode_slowly(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids
