"""The exceptions for bad parameters and failing plugins, and the wording of failures."""

from __future__ import annotations

import difflib
import functools
import itertools
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

INTERRUPTIONS = (KeyboardInterrupt, SystemExit)
"""What a plugin may raise to end the program: it passes through. Anything else, other subclasses of
BaseException included, is a fault of the plugin, and ends its request alone."""

_MOST_WORDS = 500
"""The most characters of an exception's text that a message repeats."""

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


class ParameterError(ValueError):
    """A parameter has an unknown name, a wrong type, or a value outside the allowed range."""


class TokenizerMissing(ParameterError):
    """A parameter needs a tokenizer where there is none.

    need      what needs it.
    argument  the argument that gives it, which adapters call as they do: see `tokenizer_given_as`.
    """

    def __init__(self, need: str, argument: str = "tokenizer") -> None:
        super().__init__(need, argument)
        self.need, self.argument = need, argument

    def __str__(self) -> str:
        return f"{self.need}; it is given as {self.argument}"


@contextmanager
def tokenizer_given_as(argument: str) -> Iterator[None]:
    """Let the errors of parameters that need a tokenizer name the argument that gives it here."""
    try:
        yield
    except TokenizerMissing as error:
        raise TokenizerMissing(error.need, argument) from None


class BackendError(RuntimeError):
    """A backend breaks its contract as a whole: `step` raises it, before anything changes. Raised for a
    draft, when the step has drawn tokens already, it is logged, and the step ends with these. Any other
    exception of a backend ends the requests of the step."""


class PluginFault(Exception):
    """A plugin has failed, or has returned something that its contract does not allow; the text names it."""


def failure(part: str, error: BaseException) -> str:
    """The message for an exception that a part of a request has raised."""
    return f"{part} failed: {type(error).__name__}: {text_of(error)}"


def quoted(value: Any) -> str:
    """`value` as an error message quotes it: its repr, shortened where it is long or deep.

    Values come from clients: whatever they are, this takes little time and raises nothing.
    """
    return _cut(_quoted(value, _DEPTH), _TOTAL)


def described(value: Any) -> str:
    """An array by its dtype and shape in a message, any other value by its repr."""
    if type(value) is np.ndarray:
        return f"{value.dtype} {list(value.shape)}"
    return quoted(value)


@functools.cache
def warn_once(message: str) -> None:
    """Log a warning, once in a process."""
    logging.getLogger("engine_sampler").warning(message)


def close_matches(name: str, known: Iterable[str]) -> list[str]:
    """Up to three of `known` that `name` may be meant for; none for a long name, which would take long."""
    return difflib.get_close_matches(name, known, n=3) if len(name) <= _LENGTH else []


def check_hashable(name: str, value: Any) -> None:
    """Raise `ParameterError` for a value that is not hashable."""
    try:
        hash(value)
    except Exception:  # whatever its own method raises
        raise ParameterError(f"{name}={quoted(value)} is not allowed: a hashable value") from None


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
    except INTERRUPTIONS:
        raise
    except BaseException:
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


def text_of(error: BaseException) -> str:
    """The message of an exception, shortened; also of one that cannot be turned into text."""
    try:
        return str(error)[:_MOST_WORDS]
    except INTERRUPTIONS:
        raise
    except BaseException:
        return "an exception without a text"
