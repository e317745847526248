"""A text that an expression matches, put together from its parts."""

from __future__ import annotations

from ...program.expression import CLASS, CONCAT, LITERAL, REPEAT, UNION, Expression
from ...work import spend

_MAX_LENGTH = 1_000
"""Maximum length of a text, in bytes."""

_MAX_DEPTH = 200

_PREFERRED = [ord(character) for character in "a0- "]


def sample(expression: Expression) -> bytes | None:
    """A short text in UTF-8 that an expression matches.

    None if it would be long or is not text, or if an operator (both, not, a guard, an automaton) needs a
    search.
    """
    text = _sample(expression, {}, _MAX_DEPTH)
    try:
        if text is not None:
            text.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text


def _sample(part: Expression, known: dict[int, bytes | None], depth: int) -> bytes | None:
    """`known` has the results of parts by their identity."""
    if id(part) in known:
        return known[id(part)]
    text: bytes | None = None
    kind = part[0]
    spend()
    if kind == LITERAL:
        text = part[1]
    elif kind == CLASS:
        text = bytes((_byte_of(part[1]),))
    elif kind == REPEAT and part[2] == 0:
        text = b""
    elif depth and kind == REPEAT:
        inner = _sample(part[1], known, depth - 1)
        text = inner * part[2] if inner is not None and len(inner) * part[2] <= _MAX_LENGTH else None
    elif depth and kind in (CONCAT, UNION):
        samples = [_sample(one, known, depth - 1) for one in part[1]]
        some = [one for one in samples if one is not None]
        if kind == CONCAT and len(some) == len(samples):
            text = b"".join(some)
        elif kind == UNION:
            text = min(some, key=len, default=None)
    known[id(part)] = text = text if text is None or len(text) <= _MAX_LENGTH else None
    return text


def _byte_of(mask: int) -> int:
    for byte in _PREFERRED:
        if mask >> byte & 1:
            return byte
    return (mask & -mask).bit_length() - 1
