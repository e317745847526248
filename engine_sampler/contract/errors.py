"""The exception for bad parameters, and the wording of failures."""

from __future__ import annotations


class ParameterError(ValueError):
    """A parameter has an unknown name, a wrong type, or a value outside the allowed range."""


def failure(part: str, error: Exception) -> str:
    """The message for an exception that a part of a request has raised."""
    return f"{part} failed: {type(error).__name__}: {error}"
