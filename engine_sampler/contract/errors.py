"""The exceptions for bad parameters and failing plugins, and the wording of failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

INTERRUPTIONS = (KeyboardInterrupt, SystemExit)
"""What a plugin may raise to end the program: it passes through. Anything else, other subclasses of
BaseException included, is a fault of the plugin, and ends its request alone."""

_MOST_WORDS = 500
"""The most characters of an exception's text that a message repeats."""


class ParameterError(ValueError):
    """A parameter has an unknown name, a wrong type, or a value outside the allowed range."""


class BackendError(RuntimeError):
    """A backend breaks its contract as a whole: `step` raises it, before anything changes. Any other
    exception of a backend ends the requests of the step."""


class PluginFault(Exception):
    """A plugin has failed, or has returned something that its contract does not allow; the text names it."""


def failure(part: str, error: BaseException) -> str:
    """The message for an exception that a part of a request has raised."""
    return f"{part} failed: {type(error).__name__}: {_text_of(error)}"


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


def shown(value: Any) -> str:
    """`value` in a message: its shortened repr, or its type if that has none."""
    try:
        text = repr(value)
    except INTERRUPTIONS:
        raise
    except BaseException:
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _text_of(error: BaseException) -> str:
    try:
        return str(error)[:_MOST_WORDS]
    except INTERRUPTIONS:
        raise
    except BaseException:
        return "an exception without a text"
