"""Checks and completions of texts.

Nothing here is for the hot loop, and no tokenizer is needed: texts are bytes. Special tokens are not text;
where the language requires one, a text cannot continue.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, AnyStr

import numpy as np

from ...base.errors import quoted
from ...contract import allocate_bitmask, unpack_bitmask
from ...tokenizer import Tokenizer
from ..compiled import compiled_grammar
from ..engines.reference.configurations import REJECTED
from ..engines.unique_keys import KeyPosition, position_after
from ..errors import GrammarError, GrammarLimitError
from ..limits import LIMITS, Limits
from ..program.rules import Program
from .search_space import STEPS, search_space_of, shortest_completion

MAX_BYTES = 8192
"""The default bound on the bytes of a completion."""

EOS, SPECIAL = 256, 257
BYTES = Tokenizer([*(bytes((byte,)) for byte in range(256)), b"<end>", b"<special>"], (EOS,), (SPECIAL,))
"""A token for each byte, one for the end, and one that stands for all special tokens."""

_CHUNK = 1 << 16
"""The bytes that a matcher accepts in one call."""


@dataclass(frozen=True)
class Check:
    """The result of checking a text against a grammar.

    valid     whether it is in the language
    viable    whether it is the beginning of a text of the language, or a whole one
    position  the first byte that cannot follow, counted from 0; the number of bytes if every byte can
    line      the line of that position, counted from 1
    column    the column of that position in characters, counted from 1
    expected  the bytes that are allowed at that position, ascending
    message   all of this in words
    """

    valid: bool
    viable: bool
    position: int
    line: int
    column: int
    expected: bytes
    message: str


def check(program: Program, text: str | bytes, *, limits: Limits = LIMITS) -> Check:
    """Whether `text` is in the language of `program`, and the first position where it leaves it.

    Raises GrammarLimitError if the check takes more than `limits` allow.
    """
    data = _data(text)
    matcher = compiled_grammar(_without_special_tokens(program), BYTES, limits).matcher()
    position = _read(matcher, data)
    bitmask = allocate_bitmask(1, len(BYTES))
    matcher.fill_bitmask(bitmask)
    allowed = set(np.flatnonzero(unpack_bitmask(bitmask[0], len(BYTES))).tolist())
    viable = position == len(data)
    lines = data[:position].decode(errors="replace").split("\n")
    location = len(lines), len(lines[-1]) + 1
    message = _message(data[position:], allowed, *location)
    expected = bytes(sorted(allowed - {EOS, SPECIAL}))
    return Check(viable and EOS in allowed, viable, position, *location, expected, message)


def complete(
    program: Program, text: AnyStr, *, max_bytes: int = MAX_BYTES, steps: int = STEPS
) -> AnyStr | None:
    """The shortest text that, appended to `text`, makes it a text of the language; None if there is none.

    Of several with the same number of bytes, it is the first in byte order. Its type is that of `text`.

    max_bytes  the bound on its bytes
    steps      the bound on the bytes that are tried, some five microseconds each

    Raises GrammarLimitError if more bytes are missing or more steps are needed, and GrammarError if `text`
    is a str and the completion is not UTF-8.
    """
    keys = None
    if (program.unique_keys or program.unique_items) and not check(program, text).viable:
        return None
    if program.unique_keys:
        keys = position_after(KeyPosition(), _data(text))
    space = search_space_of(program)
    with space.locked():
        configuration = space.read(_data(text))
        if configuration == REJECTED:
            return None
        found = shortest_completion(space, configuration, max_bytes, steps, keys)
    if found is not None:
        _refuse_repetitions(program, _data(text) + found)
    return None if found is None else _like(text, found)


def _refuse_repetitions(program: Program, data: bytes) -> None:
    """The search knows the grammar alone, which cannot tell whether an object repeats a key, or an array an
    item."""
    if (program.unique_keys or program.unique_items) and not check(program, data).valid:
        repeated = "a key" if program.unique_keys else "an item"
        raise GrammarLimitError(f"the shortest completion repeats {repeated}, and no others are searched for")


def _data(text: str | bytes) -> bytes:
    if isinstance(text, str):
        return text.encode(errors="surrogatepass")
    if isinstance(text, bytes):
        return text
    raise TypeError(f"text has type {type(text).__name__}; allowed are str and bytes")


def _like(text: AnyStr, data: bytes) -> AnyStr:
    """`data` in the type of `text`."""
    if isinstance(text, bytes):
        return data
    try:
        return data.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        raise GrammarError(f"the result {quoted(data)} is not UTF-8: pass the text as bytes") from None


def _without_special_tokens(program: Program) -> Program:
    """The program with a single token for all special tokens."""
    ids = program.special_ids
    return replace(program, special_ids=array("i", [SPECIAL]) * len(ids)) if ids else program


def _read(matcher: Any, data: bytes) -> int:
    """Let the matcher accept as many bytes of `data` as it can; returns their number."""
    for begin in range(0, len(data), _CHUNK):
        low, high = begin, min(begin + _CHUNK, len(data))
        if matcher.accept_bytes(data[low:high]):
            continue
        while high - low > 1:  # data[:low] has been accepted, data[low:high] is refused
            middle = (low + high) // 2
            if matcher.accept_bytes(data[low:middle]):
                low = middle
            else:
                high = middle
        return low
    return len(data)


def _message(unread: bytes, allowed: set[int], line: int, column: int) -> str:
    expected = _described(sorted(allowed - {EOS, SPECIAL}))
    expected += ["a special token"] if SPECIAL in allowed else []
    if not unread and EOS in allowed:
        return "the text is valid"
    if not unread:
        return f"line {line}, column {column}: the text is not finished; expected {_listed(expected)}"
    expected += ["the end"] if EOS in allowed else []
    found = unread[:4].decode(errors="ignore")[:1]
    shown = repr(found) if found else f"byte 0x{unread[0]:02x}"
    return f"line {line}, column {column}: {shown} is not allowed here; expected {_listed(expected)}"


def _listed(words: Sequence[str]) -> str:
    return " or ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} or {words[-1]}"


def _described(allowed: Sequence[int]) -> list[str]:
    """Bytes in words, with consecutive ones as ranges."""
    runs: list[list[int]] = []
    for byte in allowed:
        if runs and runs[-1][1] == byte - 1 and (byte < 0x80) == (runs[-1][0] < 0x80):
            runs[-1][1] = byte
        else:
            runs.append([byte, byte])
    words: list[str] = []
    for low, high in runs:
        if low >= 0x80:
            return [*words, "other characters"]
        if high - low < 3:
            words += [repr(chr(byte)) for byte in range(low, high + 1)]
        else:
            words.append(f"{quoted(chr(low))} to {quoted(chr(high))}")
    return words
