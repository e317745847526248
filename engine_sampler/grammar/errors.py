"""What grammars raise."""

from __future__ import annotations


class GrammarError(ValueError):
    """A grammar cannot be used; the text says what, and where known `line` and `column` say where.

    line, column  counted from 1, or None
    """

    def __init__(self, text: str, line: int | None = None, column: int | None = None) -> None:
        where = "" if line is None else f" (line {line}, column {column})"
        super().__init__(f"{text}{where}")
        self.line = line
        self.column = column


class GrammarLimitError(GrammarError):
    """A grammar, or a text under it, needs more than a limit allows; the text names the limit."""


class UnsupportedKeywordError(GrammarError):
    """A JSON Schema asks for what cannot be enforced token by token; the text names the keyword."""
