"""Compiled patterns as text."""

from __future__ import annotations

import re
from typing import Any

_LETTERS = ((re.A, "a"), (re.I, "i"), (re.M, "m"), (re.S, "s"), (re.X, "x"))


def pattern_text(pattern: Any) -> str:
    """The text of a compiled pattern, its flags in front as `(?i)`; a text as it is.

    Raises TypeError for anything else, and for patterns of bytes.
    """
    if isinstance(pattern, str):
        return pattern
    if not isinstance(pattern, re.Pattern) or not isinstance(pattern.pattern, str):
        raise TypeError("a string, or a compiled pattern of strings")
    letters = "".join(letter for flag, letter in _LETTERS if pattern.flags & flag)
    given = pattern.pattern
    if not letters or given.startswith("(?" + letters + ")"):
        return given
    return f"(?{letters})" + given if not _has_flags(given) else f"(?{letters})" + given.partition(")")[2]


def _has_flags(text: str) -> bool:
    """Whether a pattern begins with flags of its own, which its compiled form has among its flags."""
    inner, _, rest = text.partition(")")
    return text.startswith("(?") and inner[2:].isalpha() and bool(rest or text.endswith(")"))
