"""The errors of grammars."""

from __future__ import annotations


class GrammarError(ValueError):
    """A grammar cannot be used; the message gives the reason.

    line, column  the place in the grammar, counted from 1; None if unknown
    """

    def __init__(self, text: str, line: int | None = None, column: int | None = None) -> None:
        where = "" if line is None else f" (line {line}, column {column})"
        super().__init__(f"{text}{where}")
        self.line = line
        self.column = column


class GrammarLimitError(GrammarError):
    """A grammar, or a text under it, needs more than a limit allows; the message names the limit."""


class UnsupportedKeywordError(GrammarError):
    """A JSON Schema has a keyword that cannot be enforced token by token; the message names it."""
