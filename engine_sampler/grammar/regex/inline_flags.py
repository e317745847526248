"""Flags within a pattern, such as `(?i)` and `(?s-x:...)`."""

from __future__ import annotations

import re

from .items import malformed

_LETTERS = {"a": int(re.A), "i": int(re.I), "m": int(re.M), "s": int(re.S), "u": int(re.U), "x": int(re.X)}

FLAGS = frozenset("-L").union(_LETTERS)
"""What may stand behind `(?` where flags begin; L, which is for bytes, is refused."""

CHARACTER_SETS = int(re.A | re.U)
"""The flags of which one must be on, and no more."""


def read_flags(text: str, at: int) -> tuple[int, int, int]:
    """The flags that the text at `at` turns on, those that it turns off, and the position behind the `:` or
    `)` that ends them. Raises PatternError."""
    added, at = _letters(text, at, "-:)")
    if text[at] != "-":
        return added, 0, at + 1
    start = at + 1
    removed, at = _letters(text, start, ":")
    if not removed:
        raise malformed("missing flag", start)
    if removed & CHARACTER_SETS:
        raise malformed("bad inline flags: cannot turn off flags 'a' and 'u'", start)
    if added & removed:
        raise malformed("bad inline flags: flag turned on and off", start)
    return added, removed, at + 1


def _letters(text: str, at: int, ends: str) -> tuple[int, int]:
    """The flags before one of `ends`, and the position of that."""
    flags = 0
    while (letter := text[at : at + 1]) not in ends or not letter:
        if letter == "L":
            raise malformed("bad inline flags: cannot use 'L' flag with a str pattern", at + 1)
        if letter not in _LETTERS:
            reason = "unknown flag" if letter.isalpha() else f"missing {' or '.join(ends)}"
            raise malformed(reason, at)
        flags |= _LETTERS[letter]
        if flags & CHARACTER_SETS == CHARACTER_SETS:
            raise malformed("bad inline flags: flags 'a' and 'u' are incompatible", at + 1)
        at += 1
    return flags, at
