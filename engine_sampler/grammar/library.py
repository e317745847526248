"""The packaged grammars, by name."""

from __future__ import annotations

import functools

from ..packaged import grammar_names, grammar_text
from .errors import GrammarError
from .grammar import Grammar, cached_or_built


@functools.cache
def library_names() -> list[str]:
    """The names of the packaged grammars."""
    return grammar_names()


def library_grammar(name: str) -> Grammar:
    """A packaged grammar, such as "json" or "sql", cached. Raises GrammarError for an unknown name."""
    if name not in library_names():
        raise GrammarError(f"name={name!r} is not allowed: one of {', '.join(library_names())}")
    return cached_or_built(("library", name), lambda: Grammar.from_lark(grammar_text(name)))
