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

from .gguf_encoding import encoder_of
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
    path = source if isinstance(source, (str, os.PathLike)) else source.model_path
    keys = _vocabulary(path)
    tokens, types = keys["tokens"], keys["token_type"]
    eos, eot = find_ends(keys)
    special = {i for i, kind in enumerate(types) if kind in (UNKNOWN, CONTROL, UNUSED)}.union(eos)
    user_defined = {i for i, kind in enumerate(types) if kind == USER_DEFINED} - special
    decode, verbatim = _DECODE[keys["model"]], user_defined | special
    token_bytes = [literal(p) if i in verbatim else decode(p) for i, p in enumerate(tokens)]
    encode = encoder_of(keys, user_defined, special) if path is source else partial(_encode, source)
    return TokenTable(token_bytes, eos, special, eot, encode)


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
    keys = {"token_type": [NORMAL] * len(keys["tokens"])} | keys
    _check_types(keys, os.fspath(path))
    return keys


def _check_types(keys: Mapping[str, Any], path: str) -> None:
    """Raise ValueError for the first entry that is used and has another type or length than it must have."""
    for name, value in keys.items():
        if name in _LISTS:
            right = isinstance(value, list) and all(isinstance(entry, _LISTS[name]) for entry in value)
        else:
            kind = int if name.endswith("_token_id") else _SINGLE.get(name, object)
            right = isinstance(value, kind)
        if not right:
            raise ValueError(f"{PREFIX}{name} of {path} has a wrong type")
    for name in ("token_type", "scores"):
        if name in keys and len(keys[name]) != len(keys["tokens"]):
            raise ValueError(f"{PREFIX}{name} of {path} has not one entry for each token")


_LISTS: Mapping[str, type | tuple[type, ...]] = {
    "tokens": str,
    "token_type": int,
    "scores": (float, int),
    "merges": str,
}
_SINGLE: Mapping[str, type] = {"pre": str, "add_space_prefix": bool}


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
