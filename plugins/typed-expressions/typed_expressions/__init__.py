"""Typed expressions: programs that parse and are well typed, token by token. A plugin for engine-sampler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine_sampler.contract import hookimpl

from .checker import Checker
from .language import TypedExpressions

__all__ = ["Checker", "TypedExpressions"]


@hookimpl
def register_grammars(register: Callable[[str, Any], None]) -> None:
    """Called once when engine-sampler loads its plugins, through the entry point in pyproject.toml."""
    register("typed_expressions", TypedExpressions())
