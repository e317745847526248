"""`GrammarSource`: a grammar as a client gives it, before it is read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ...base.errors import quoted
from ..errors import GrammarError
from ..grammar import Grammar, NotCachedError, only_cached
from ..library import library_grammar
from ..limits import LIMITS, Limits

Options: TypeAlias = tuple[tuple[str, Any], ...]
"""Keywords of a `Grammar.from_` method, each with its value."""

_READERS: Mapping[str, Callable[..., Grammar]] = {
    "json_schema": Grammar.from_json_schema,
    "json_object": lambda value, **options: Grammar.from_json_object(**options),
    "regex": Grammar.from_regex,
    "choice": Grammar.from_choices,
    "text": Grammar.from_text,
    "lark": Grammar.from_lark,
    "gbnf": Grammar.from_gbnf,
    "library": library_grammar,
    "structural_tag": Grammar.from_structural_tag,
}


class GrammarSource(NamedTuple):
    """What `read` makes a grammar from.

    kind     json_schema, json_object, regex, choice, text, lark, gbnf, library (a packaged grammar) or
             structural_tag
    value    the argument of the `Grammar.from_` method of that kind; it must be possible to pickle it
    options  further arguments of that method
    """

    kind: str
    value: Any
    options: Options = ()

    @property
    def limits(self) -> Limits:
        """The limits among its options, by which it is also compiled; the default ones if there are none."""
        found: Limits = dict(self.options).get("limits", LIMITS)
        return found

    def read(self) -> Grammar:
        """The grammar, from the cache or newly built. Raises `GrammarError`, and what the method raises."""
        if self.kind not in _READERS:
            raise GrammarError(f"kind={quoted(self.kind)} is not allowed: one of {', '.join(_READERS)}")
        return _READERS[self.kind](self.value, **dict(self.options))

    def find(self) -> tuple[Grammar | None, Hashable]:
        """The grammar if it is cached, and its key in the cache; None without a grammar, or if it is never
        cached. Raises what `read` raises before it starts to build the grammar."""
        try:
            with only_cached():
                return self.read(), None
        except NotCachedError as missing:
            return None, missing.key
