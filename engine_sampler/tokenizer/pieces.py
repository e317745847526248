"""How vocabularies write a token's bytes as text, undone."""

from __future__ import annotations

import re
from collections.abc import Callable

Decode = Callable[[str], bytes]
"""The bytes of a piece, which is how a vocabulary writes a token."""

SPACE = "▁"
"""U+2581, which stands for a space in SentencePiece's pieces."""

_BYTE_NAME = re.compile("<0x([0-9A-Fa-f]{2})>")


def byte_level(piece: str) -> bytes:
    """Byte-level BPE (GPT-2): a character per byte. A piece with other characters is taken as it is."""
    try:
        return piece.translate(_BYTES).encode("latin-1")
    except UnicodeEncodeError:
        return literal(piece)


def sentence_piece(piece: str) -> bytes:
    """SentencePiece: a "▁" for each space, a name such as "<0x0A>" for a byte."""
    byte = byte_of_name(piece)
    return literal(piece.replace(SPACE, " ")) if byte is None else byte


def byte_of_name(piece: str) -> bytes | None:
    """The byte that "<0x0A>" names, None for other pieces."""
    found = _BYTE_NAME.fullmatch(piece)
    return bytes.fromhex(found[1]) if found else None


def literal(piece: str) -> bytes:
    """A piece that is the text itself. Lone surrogates stand for bytes that were no UTF-8."""
    return piece.encode("utf-8", "surrogateescape")


def byte_level_alphabet() -> dict[int, str]:
    """The printable character that stands for each byte in byte-level BPE (GPT-2)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}


def _byte_table() -> dict[int, int]:
    """For str.translate: the alphabet's characters to U+0000..U+00FF, and what is left there beyond."""
    bytes_of = {ord(char): byte for byte, char in byte_level_alphabet().items()}
    return dict.fromkeys(range(256), 0x100) | bytes_of


_BYTES = _byte_table()
