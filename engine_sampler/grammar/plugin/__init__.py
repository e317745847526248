"""What grammars add to the core: their engine as a `ConstraintReader`, the sampler `grammar_bias`, and the
criteria `banned_regex` and `stop_regex`. Registered as those of any plugin are.

These modules load when the registry does: they import the engine when they first need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...contract import hookimpl
from .banned_regex import BannedRegexCriteria
from .grammar_bias import GrammarBias
from .reader import GrammarReader
from .stop_regex import StopRegexCriteria

__all__ = ["BannedRegexCriteria", "GrammarBias", "GrammarReader", "StopRegexCriteria"]


@hookimpl
def register_constraints(register: Callable[[Any], None]) -> None:
    register(GrammarReader())


@hookimpl
def register_samplers(register: Callable[[Any], None]) -> None:
    register(GrammarBias())


@hookimpl
def register_stopping_criteria(register: Callable[[Any], None]) -> None:
    register(BannedRegexCriteria())
    register(StopRegexCriteria())
