"""Errors for refused inputs, under MindIE's names."""

from __future__ import annotations

from engine_sampler import ParameterError


class ValidationError(ParameterError):
    """An input is not allowed; the message names it, its value and what is allowed."""


class InconsistencyError(ValidationError):
    """Inputs do not fit together: their shapes, their lengths, or their data for one request."""


class OutOfBoundsError(ValidationError):
    """A number is outside its range."""


class UnsupportedTypeError(ValidationError, TypeError):
    """An input has a type or a dtype that is not supported."""
