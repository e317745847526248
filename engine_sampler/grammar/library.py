"""The packaged grammars, by name."""

from __future__ import annotations

import functools
from typing import Literal

from ..base.errors import quoted
from ..base.packaged import grammar_names, grammar_text
from .errors import GrammarError
from .grammar import Grammar, cached_or_built


@functools.cache
def library_names() -> list[str]:
    """The names of the packaged grammars."""
    return grammar_names()


def library_grammar(
    name: str,
    *,
    lexer: Literal["dynamic_complete", "contextual"] = "dynamic_complete",
    start: str | None = None,
) -> Grammar:
    """A packaged grammar, such as "json" or "sql", cached; `lexer` and `start` as in `Grammar.from_text`.

    Raises GrammarError for an unknown name, and what `Grammar.from_text` raises.
    """
    if name not in library_names():
        raise GrammarError(f"name={quoted(name)} is not allowed: one of {', '.join(library_names())}")
    key = ("library", name, lexer, start)
    return cached_or_built(key, lambda: Grammar.from_text(grammar_text(name), lexer=lexer, start=start))
