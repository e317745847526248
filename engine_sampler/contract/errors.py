"""The exception for bad parameters, and the wording of failures."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

_LENGTH = 80
"""The number of characters of one text that an error quotes, and of other values that have no parts."""

_ENTRIES = 8
"""The number of entries of one collection that an error quotes."""

_TOTAL = 240
"""The number of characters of a whole value that an error quotes."""

_DEPTH = 4
"""The depth to which nested collections are quoted."""

_LONG_INTEGER = 256
"""Integers of more bits are described; Python refuses to print very long ones."""

Value = TypeVar("Value")


class ParameterError(ValueError):
    """A parameter has an unknown name, a wrong type, or a value outside the allowed range."""


def failure(part: str, error: Exception) -> str:
    """The message for an exception that a part of a request has raised."""
    return f"{part} failed: {type(error).__name__}: {error}"


def quoted(value: Any) -> str:
    """`value` as an error message quotes it: its repr, shortened where it is long or deep.

    Values come from clients: whatever they are, this takes little time and raises nothing.
    """
    return _cut(_quoted(value, _DEPTH), _TOTAL)


def close_matches(name: str, known: Iterable[str]) -> list[str]:
    """Up to three of `known` that `name` may be meant for; none for a long name, which would take long."""
    return difflib.get_close_matches(name, known, n=3) if len(name) <= _LENGTH else []


def guarded(read: Callable[[], Value], what: str) -> Value:
    """`read()`; values nested too deeply or numbers too large for it raise `ParameterError`.

    what  names what is read, for the message.
    """
    try:
        return read()
    except RecursionError:
        raise ParameterError(f"{what} is nested too deeply") from None
    except OverflowError:
        raise ParameterError(f"{what} contains a number that is too large") from None


def _quoted(value: Any, depth: int) -> str:
    kind = type(value)
    if kind in (str, bytes):
        return repr(value) if len(value) <= _LENGTH else repr(value[:_LENGTH]) + "…"
    if kind is int and value.bit_length() > _LONG_INTEGER:
        return f"an integer of {value.bit_length()} bits"
    if kind in _BRACKETS and value:
        opening, closing = _BRACKETS[kind]
        if not depth:
            return f"{opening}…{closing}"
        if kind is dict:
            entries = (f"{_quoted(k, depth - 1)}: {_quoted(v, depth - 1)}" for k, v in _first(value.items()))
        else:
            entries = (_quoted(entry, depth - 1) for entry in _first(value))
        more = ", …" if len(value) > _ENTRIES else "," if kind is tuple and len(value) == 1 else ""
        return opening + ", ".join(entries) + more + closing
    try:
        return _cut(repr(value), _LENGTH)
    except Exception:
        return f"a {kind.__name__}"


_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
}


def _first(entries: Iterable[Any]) -> Iterable[Any]:
    return itertools.islice(entries, _ENTRIES)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"
