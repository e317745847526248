"""llguidance as the grammar engine of engine-sampler: `Scheduler(grammar_engine="llguidance")`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine_sampler.contract import hookimpl

from .matching import GuidedGrammar, GuidedMatcher
from .reader import GuidanceReader

__all__ = ["GuidanceReader", "GuidedGrammar", "GuidedMatcher"]


@hookimpl
def register_constraints(register: Callable[[Any], None]) -> None:
    """Called once when engine-sampler loads its plugins, through the entry point in pyproject.toml."""
    register(GuidanceReader())
