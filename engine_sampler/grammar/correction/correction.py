"""Finished texts: whether they are in a language, what completes them, and what repairs them.

Nothing here is for the hot loop, and no tokenizer is needed: texts are bytes. Special tokens are no text;
where the language wants one, a text cannot go on.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, AnyStr, Generic

import numpy as np

from ...contract import allocate_bitmask, unpack_bitmask
from ...tokenizer import Tokenizer
from ..compiled import compiled_grammar
from ..engines.reference.configurations import LOST
from ..errors import GrammarError
from ..limits import LIMITS, Limits
from ..program.rules import Program
from .edits import Edit, Repairs
from .search import STEPS, ground_of, shortest

MAX_BYTES = 8192
"""The longest completion that is looked for."""

MAX_EDITS = 1000
"""The most edits that a repair makes."""

REPAIR_STEPS = 20_000
"""Readings that a repair looks at, beside one for each character of the text."""

EOS, SPECIAL = 256, 257
BYTES = Tokenizer([*(bytes((byte,)) for byte in range(256)), b"<end>", b"<special>"], (EOS,), (SPECIAL,))
"""A token for each byte, one for the end, and one that stands for all special tokens."""

_CALL = 1 << 16
"""Bytes that are given to a matcher at once."""


@dataclass(frozen=True)
class Check:
    """What is known of a text under a grammar.

    valid     whether it is in the language
    viable    whether it is the beginning of a text of the language, or all of one
    position  the first byte that cannot follow, from 0; the number of bytes where every byte can
    line      of that place, from 1
    column    in characters, from 1
    expected  the bytes that could stand at that place, ascending
    message   all of this in words
    """

    valid: bool
    viable: bool
    position: int
    line: int
    column: int
    expected: bytes
    message: str


@dataclass(frozen=True)
class Change(Generic[AnyStr]):
    """`text[start:end]` becomes `new`."""

    start: int
    end: int
    new: AnyStr


@dataclass(frozen=True)
class Repair(Generic[AnyStr]):
    """A text of the language that is near to another one.

    text     the new text
    edits    how many characters were inserted, deleted or replaced (bytes, where the text is no UTF-8)
    changes  what was done, from left to right; the places are those of the text that was given
    minimal  whether it is certain that fewer edits would not do
    """

    text: AnyStr
    edits: int
    changes: tuple[Change[AnyStr], ...]
    minimal: bool


def check(program: Program, text: str | bytes, *, limits: Limits = LIMITS) -> Check:
    """Whether `text` is in the language of `program`, and where it leaves it.

    Raises GrammarLimitError if that takes more than `limits` allow.
    """
    data = _data(text)
    matcher = compiled_grammar(_without_special_tokens(program), BYTES, limits).matcher()
    position = _read(matcher, data)
    bitmask = allocate_bitmask(1, len(BYTES))
    matcher.fill_bitmask(bitmask)
    allowed = set(np.flatnonzero(unpack_bitmask(bitmask[0], len(BYTES))).tolist())
    viable = position == len(data)
    lines = data[:position].decode(errors="replace").split("\n")
    place = len(lines), len(lines[-1]) + 1
    message = _message(data[position:], allowed, *place)
    expected = bytes(sorted(allowed - {EOS, SPECIAL}))
    return Check(viable and EOS in allowed, viable, position, *place, expected, message)


def complete(
    program: Program, text: AnyStr, *, max_bytes: int = MAX_BYTES, steps: int = STEPS
) -> AnyStr | None:
    """The shortest text that makes `text`, set before it, a text of the language; None if there is none.

    Of several that have as few bytes, the one whose bytes come first. Its type is that of `text`.

    max_bytes  the most that it may have
    steps      configurations of the parser that are looked at

    Raises GrammarLimitError if more bytes are missing, or more steps are needed; GrammarError if `text`
    is a str and what is missing is no UTF-8.
    """
    ground = ground_of(program)
    with ground.search():
        configuration = ground.read(_data(text))
        found = None if configuration == LOST else shortest(ground, configuration, max_bytes, steps)
    return None if found is None else _like(text, found)


def repair(
    program: Program, text: AnyStr, *, max_edits: int = MAX_EDITS, steps: int = REPAIR_STEPS
) -> Repair[AnyStr]:
    """A text of the language that differs from `text` in as few characters as can be.

    An edit inserts, deletes or replaces a character; where the text is no UTF-8, a byte. Of texts with as
    few edits the one is taken that keeps most letters and digits, and then rather deletes than replaces,
    and replaces than inserts. What is nearest need not be what was meant: for a text that was cut off,
    `complete` is the better choice.

    max_edits  the most edits that are made
    steps      what the search may look at, beside a step for each character; where that does not
               suffice, a hasty search takes what looks best (`Repair.minimal` is False then)

    Raises GrammarLimitError if that is not enough; GrammarError as `complete` does.
    """
    data = _data(text)
    units, in_characters = _units(data)
    ground = ground_of(program)
    with ground.search():
        behind = ground.read(data)
        if ground.threads.accepting(behind):
            return Repair(text, 0, (), True)
        repairs = Repairs(ground, units, in_characters, max_edits)
        edits, count, minimal = repairs.best(behind, steps + len(units))
    changes = _changes(text, units, edits)
    return Repair(_like(text, _edited(units, edits)), count, changes, minimal)


def _data(text: str | bytes) -> bytes:
    if isinstance(text, str):
        return text.encode(errors="surrogatepass")
    if isinstance(text, bytes):
        return text
    raise TypeError(f"text is a {type(text).__name__}, allowed are str and bytes")


def _like(text: AnyStr, data: bytes) -> AnyStr:
    """`data` in the type of `text`."""
    if isinstance(text, bytes):
        return data
    try:
        return data.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        raise GrammarError(f"the result {data!r} is no UTF-8: give the text as bytes") from None


def _units(data: bytes) -> tuple[list[bytes], bool]:
    """The characters of a text, or its bytes where it is no UTF-8; and which of the two."""
    try:
        characters = data.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return [data[at : at + 1] for at in range(len(data))], False
    return [character.encode(errors="surrogatepass") for character in characters], True


def _edited(units: Sequence[bytes], edits: Sequence[Edit]) -> bytes:
    """The text after the edits."""
    parts: list[bytes] = []
    at = 0
    for edit in edits:
        parts += [*units[at : edit.start], edit.new]
        at = edit.end
    return b"".join([*parts, *units[at:]])


def _changes(text: AnyStr, units: Sequence[bytes], edits: Sequence[Edit]) -> tuple[Change[AnyStr], ...]:
    places: Sequence[int] = range(len(units) + 1)
    if isinstance(text, bytes):
        places = list(accumulate(map(len, units), initial=0))
    return tuple(Change(places[edit.start], places[edit.end], _like(text, edit.new)) for edit in edits)


def _without_special_tokens(program: Program) -> Program:
    """The program with one token for all that are special."""
    ids = program.special_ids
    return replace(program, special_ids=array("i", [SPECIAL]) * len(ids)) if ids else program


def _read(matcher: Any, data: bytes) -> int:
    """Give as much of `data` to the matcher as it takes; how many bytes that is."""
    for begin in range(0, len(data), _CALL):
        low, high = begin, min(begin + _CALL, len(data))
        if matcher.accept_bytes(data[low:high]):
            continue
        while high - low > 1:  # data[low:high] cannot be read, what is before it has been
            middle = (low + high) // 2
            if matcher.accept_bytes(data[low:middle]):
                low = middle
            else:
                high = middle
        return low
    return len(data)


def _message(rest: bytes, allowed: set[int], line: int, column: int) -> str:
    wanted = _described(sorted(allowed - {EOS, SPECIAL}))
    wanted += ["a special token"] if SPECIAL in allowed else []
    if not rest and EOS in allowed:
        return "the text is valid"
    if not rest:
        return f"line {line}, column {column}: the text is not finished; expected {_listed(wanted)}"
    wanted += ["the end"] if EOS in allowed else []
    found = rest[:4].decode(errors="ignore")[:1]
    shown = repr(found) if found else f"byte 0x{rest[0]:02x}"
    return f"line {line}, column {column}: {shown} cannot stand here; expected {_listed(wanted)}"


def _listed(words: Sequence[str]) -> str:
    return " or ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} or {words[-1]}"


def _described(allowed: Sequence[int]) -> list[str]:
    """Bytes in words, those that follow each other as ranges."""
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
            words.append(f"{chr(low)!r} to {chr(high)!r}")
    return words
