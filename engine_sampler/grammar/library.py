"""The grammars that come with the package, by name."""

from __future__ import annotations

import functools

from ..packaged import grammar_names, grammar_text
from .errors import GrammarError
from .grammar import Grammar


@functools.cache
def library_names() -> list[str]:
    """The names of the grammars that come with the package."""
    return grammar_names()


@functools.cache
def library_grammar(name: str) -> Grammar:
    """A grammar of the package, such as "json" or "sql". Raises GrammarError for a name it lacks."""
    if name not in library_names():
        raise GrammarError(f"there is no grammar {name!r}, allowed are {', '.join(library_names())}")
    return Grammar.from_lark(grammar_text(name))
