"""Calls of what may fail in any way: plugins, and readers of what clients send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .errors import INTERRUPTIONS, ParameterError, PluginFault, failure

T = TypeVar("T")


def call_plugin(part: str, method: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
    """`method(*arguments, **keywords)`; whatever it raises becomes a `PluginFault` that names `part`, unless
    it is one already."""
    try:
        return method(*arguments, **keywords)
    except (PluginFault, *INTERRUPTIONS):
        raise
    except BaseException as error:
        raise PluginFault(failure(part, error)) from error


def call_for_add(part: str, method: Callable[..., T], *arguments: Any) -> T:
    """`method(*arguments)` while a request is being added: whatever it raises becomes a `ParameterError` that
    names `part`, and one that it raises itself stays as it is."""
    try:
        return method(*arguments)
    except (ParameterError, *INTERRUPTIONS):
        raise
    except BaseException as error:
        raise ParameterError(failure(part, error)) from error


def guarded(read: Callable[[], T], what: str) -> T:
    """`read()`; values nested too deeply or numbers too large for it raise `ParameterError`.

    what  names what is read, for the message.
    """
    try:
        return read()
    except RecursionError:
        raise ParameterError(f"{what} is nested too deeply") from None
    except OverflowError:
        raise ParameterError(f"{what} contains a number that is too large") from None
