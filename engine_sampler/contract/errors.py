"""What bad parameters raise, and how failures are worded."""

from __future__ import annotations


class ParameterError(ValueError):
    """A parameter has an unknown name, a wrong type, or a value outside what is allowed."""


def failure(who: str, error: Exception) -> str:
    """What a part of a request has raised, in words."""
    return f"{who} failed: {type(error).__name__}: {error}"
