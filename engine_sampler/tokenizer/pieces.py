"""Converting pieces, the texts by which vocabularies represent tokens, back to bytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

Decode = Callable[[str], bytes]
"""A function from a piece to its bytes."""

SPACE = "▁"
"""U+2581, which represents a space in SentencePiece's pieces."""

_BYTE_NAME = re.compile("<0x([0-9A-Fa-f]{2})>")


def byte_level(piece: str) -> bytes:
    """Byte-level BPE (GPT-2): one character per byte. A piece with other characters is taken literally."""
    try:
        return piece.translate(_BYTES).encode("latin-1")
    except UnicodeEncodeError:
        return literal(piece)


def sentence_piece(piece: str) -> bytes:
    """SentencePiece: "▁" for a space, and a name such as "<0x0A>" for a byte."""
    byte = byte_of_name(piece)
    return literal(piece.replace(SPACE, " ")) if byte is None else byte


def byte_of_name(piece: str) -> bytes | None:
    """The byte that a piece such as "<0x0A>" names; None for other pieces."""
    found = _BYTE_NAME.fullmatch(piece)
    return bytes.fromhex(found[1]) if found else None


def literal(piece: str) -> bytes:
    """A piece that is the text itself. Lone surrogates represent bytes that are not valid UTF-8."""
    return piece.encode("utf-8", "surrogateescape")


def byte_level_alphabet() -> dict[int, str]:
    """The printable character that represents each byte in byte-level BPE (GPT-2)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}


def _byte_table() -> dict[int, int]:
    """For str.translate: maps the alphabet to U+0000..U+00FF, and the other characters below U+0100 to
    U+0100, which latin-1 refuses."""
    bytes_of = {ord(char): byte for byte, char in byte_level_alphabet().items()}
    return dict.fromkeys(range(256), 0x100) | bytes_of


_BYTES = _byte_table()


def unfinished_bytes(data: bytes | bytearray) -> int:
    """How many bytes at the end of `data` may still become a character of UTF-8."""
    tail = data[-3:]
    return len(tail) - codecs.utf_8_decode(tail, "replace", False)[1]
