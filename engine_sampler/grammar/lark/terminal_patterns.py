"""Definitions of terminals as lark's patterns: what its own transformers make of them, with the work counted.

Lark takes tens of microseconds for each literal, and lets `re` parse the alternatives of a choice.
"""

from __future__ import annotations

from typing import Any

from lark import Tree
from lark.grammar import Symbol
from lark.lexer import Pattern, PatternRE, PatternStr
from lark.load_grammar import PrepareLiterals, TerminalTreeToPattern

from ..regex import pattern as regex
from ..regex.pattern import Outline
from ..work import spend

_LITERALS = PrepareLiterals()
_JOINING = TerminalTreeToPattern()

LITERALS = ("literal", "range")
"""The nodes that are a string, a regular expression or a range."""

_LITERAL_STEPS = 8
"""The steps for a literal that lark reads."""


def pattern_of(node: Any) -> Pattern:
    """The pattern of a part of a terminal, in which other terminals are substituted. Raises as lark does, and
    GrammarError for a pattern among several that cannot be read."""
    spend()
    if isinstance(node, Pattern):
        return node
    if not isinstance(node, Symbol) and node.data in LITERALS:
        return literal_pattern(node)
    parts = [pattern_of(part) if isinstance(part, Tree) else part for part in node.children]
    joined = _any_of if node.data == "expansions" and len(parts) > 1 else getattr(_JOINING, node.data)
    found: Pattern = joined(parts)
    spend(len(found.value) // 16)
    return found


def _any_of(parts: list[Pattern]) -> Pattern:
    """Any one of the parts, of which those that may match more characters are tried first."""

    def place(part: Pattern) -> tuple[int, int, int]:
        least, most = outline_of(part).width
        return -most, -least, -len(part.value)

    return PatternRE(f"(?:{'|'.join(part.to_regexp() for part in sorted(parts, key=place))})")


def outline_of(pattern: Pattern) -> Outline:
    """The outline of a pattern. For its width, lark would ask `re`. Raises GrammarError and
    GrammarLimitError."""
    if isinstance(pattern, PatternStr):
        return Outline((len(pattern.value), len(pattern.value)), False)
    return regex.outline_of(pattern.to_regexp())


def literal_pattern(node: Any) -> Pattern:
    """The pattern of a string, a regular expression, or a range such as "a".."z"."""
    token = node.children[0]
    if node.data == "literal" and (text := plain_text(token)) is not None:
        return PatternStr(text, token[len(text) + 2 :], raw=str(token))
    spend(_LITERAL_STEPS + len(token) // 4)
    found: Pattern = _LITERALS.transform(Tree(node.data, list(node.children))).children[0]
    return found


def plain_text(token: Any) -> str | None:
    """The text of a string without escapes, which is not empty; None for any other literal."""
    if token.type != "STRING" or "\\" in token or token[1] == '"':
        return None
    return str(token[1 : token.rindex('"')])
