"""Vocabularies in GGUF files, read from the file's header.

The keys are those of the GGUF specification, under "tokenizer.ggml."; pieces are converted to bytes as
llama.cpp's llama_token_to_piece does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..base.arguments import with_attributes
from .gguf_encoding import Encoding, encoding_of
from .gguf_ends import find_ends
from .gguf_metadata import read_metadata
from .pieces import Decode, byte_level, byte_of_name, literal, sentence_piece
from .table import TokenTable

PREFIX = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5


def read(source: Any) -> TokenTable:
    """From the path of a GGUF file, or from a `llama_cpp.Llama`, which then splits texts itself.

    Tokens of the types unknown, control and unused are special, and so are those that end a text.
    """
    if not isinstance(source, (str, os.PathLike)):
        with_attributes(("model_path",), "source", source, "the path of a GGUF file, or a llama_cpp.Llama")
    path = source if isinstance(source, (str, os.PathLike)) else source.model_path
    keys = _vocabulary(path)
    tokens, types = keys["tokens"], keys["token_type"]
    eos, eot = find_ends(keys)
    special = {i for i, kind in enumerate(types) if kind in (UNKNOWN, CONTROL, UNUSED)}.union(eos)
    user_defined = {i for i, kind in enumerate(types) if kind == USER_DEFINED} - special
    decode, verbatim = _DECODE[keys["model"]], user_defined | special
    token_bytes = [literal(p) if i in verbatim else decode(p) for i, p in enumerate(tokens)]
    inside = path is not source
    encoding = Encoding(partial(_encode, source)) if inside else encoding_of(keys, user_defined, special)
    return TokenTable(token_bytes, eos, special, eot, *encoding, added_token_ids=user_defined)


def _vocabulary(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The entries of the vocabulary, by key without the prefix."""
    metadata = read_metadata(path)
    keys = {k.removeprefix(PREFIX): v for k, v in metadata.items() if k.startswith(PREFIX)}
    if "tokens" not in keys:
        raise ValueError(f"{os.fspath(path)} has no vocabulary ({PREFIX}tokens)")
    if not isinstance(keys["tokens"], list):
        raise ValueError(f"{PREFIX}tokens of {os.fspath(path)} has a wrong type")
    if not isinstance(keys.get("model"), str) or keys["model"] not in _DECODE:
        raise ValueError(
            f"{PREFIX}model={keys.get('model')!r} of {os.fspath(path)} is not supported: {sorted(_DECODE)}"
        )
    keys.setdefault("token_type", [NORMAL] * len(keys["tokens"]))
    wrong = [name for name, value in keys.items() if not _is_right(name, value, len(keys["tokens"]))]
    for name in wrong:
        if name not in _FOR_ENCODING:
            raise ValueError(f"{PREFIX}{name} of {os.fspath(path)} has a wrong type or length")
    return {**keys, **dict.fromkeys(wrong)}


def _is_right(name: str, value: Any, size: int) -> bool:
    """Whether an entry of a vocabulary of `size` tokens has the type and length that it must have."""
    if name not in _LISTS:
        if name == "unknown_token_id":
            return isinstance(value, int) and 0 <= value < size
        return isinstance(value, int if name.endswith("_token_id") else _SINGLE.get(name, object))
    if not isinstance(value, list) or not all(isinstance(entry, _LISTS[name]) for entry in value):
        return False
    return name == "merges" or len(value) == size


_FOR_ENCODING = frozenset(
    (
        *("merges", "scores", "pre", "add_space_prefix", "unknown_token_id"),
        *("normalizer.lowercase", "normalizer.strip_accents"),
    )
)
"""Entries that only `encode` needs: `_vocabulary` has None for them if they are wrong."""
_LISTS: Mapping[str, type | tuple[type, ...]] = {
    "tokens": str,
    "token_type": int,
    "scores": (float, int),
    "merges": str,
}
_SINGLE: Mapping[str, type] = {
    "pre": str,
    **dict.fromkeys(("add_space_prefix", "normalizer.lowercase", "normalizer.strip_accents"), bool),
}


def _plamo(piece: str) -> bytes:
    """PLaMo-2: literal text, and names for bytes."""
    byte = byte_of_name(piece)
    return literal(piece) if byte is None else byte


def _rwkv(piece: str) -> bytes:
    r"""RWKV: bytes with escapes such as \n and \xff."""
    return _ESCAPE.sub(_unescaped, literal(piece))


def _unescaped(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    return bytes((int(code[1:], 16),)) if len(code) == 3 else _CONTROLS.get(code, code)


_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_CONTROLS = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}
_DECODE: Mapping[str, Decode] = {
    "llama": sentence_piece,
    "t5": sentence_piece,
    "bert": sentence_piece,  # llama.cpp's files have "▁" at the start of a word and nothing inside it
    "gemma4": sentence_piece,
    "gpt2": byte_level,
    "plamo2": _plamo,
    "rwkv": _rwkv,
}


def _encode(model: Any, text: str) -> list[int]:
    ids: list[int] = model.tokenize(text.encode(), add_bos=False, special=False)
    return ids
