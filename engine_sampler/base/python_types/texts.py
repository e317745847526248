"""Enumerations and compiled patterns as texts."""

from __future__ import annotations

import enum
import re
import typing
from typing import Any

_LETTERS = ((re.A, "a"), (re.I, "i"), (re.M, "m"), (re.S, "s"), (re.X, "x"))


def choice_texts(choices: Any) -> Any:
    """The values of an `Enum` or a `Literal` as a list of texts, integers in decimal digits; anything else as
    it is. Raises ValueError for values that are neither."""
    if isinstance(choices, type) and issubclass(choices, enum.Enum):
        values: list[Any] = [member.value for member in choices]
    elif typing.get_origin(choices) is typing.Literal:
        members = typing.get_args(choices)
        values = [member.value if isinstance(member, enum.Enum) else member for member in members]
    else:
        return choices
    for value in values:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise ValueError(f"an enumeration of texts or integers; {value!r} is neither")
    return list(map(str, values))


def pattern_text(pattern: Any) -> str:
    """The text of a compiled pattern, its flags in front as `(?i)`; a text as it is.

    Raises TypeError for anything else, and for patterns of bytes.
    """
    if isinstance(pattern, str):
        return pattern
    if not isinstance(pattern, re.Pattern) or not isinstance(pattern.pattern, str):
        raise TypeError("a string, or a compiled pattern of strings")
    letters = "".join(letter for flag, letter in _LETTERS if pattern.flags & flag)
    text = pattern.pattern
    if not letters or text.startswith("(?" + letters + ")"):
        return text
    return f"(?{letters})" + (text.partition(")")[2] if _has_flags(text) else text)


def _has_flags(text: str) -> bool:
    """Whether a pattern begins with flags of its own, which its compiled form has among its flags."""
    inner, _, rest = text.partition(")")
    return text.startswith("(?") and inner[2:].isalpha() and bool(rest or text.endswith(")"))
