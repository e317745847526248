"""The errors of grammars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..contract import ConstraintError

_WIDTH = 76
"""The most characters of a line that an error shows."""


class GrammarError(ConstraintError):
    """A grammar cannot be used; the message gives the reason, and the place where it is known.

    line, column  the place in the grammar's text, counted from 1; None if unknown
    pointer       the JSON pointer of the keyword or subschema of a JSON Schema, such as
                  `#/properties/name/maxLength`; None if unknown, and for other grammars
    excerpt       the line with a caret below the column; "" if unknown
    tag           the tag of a structural tag in whose content it is, the innermost one; None elsewhere
    """

    def __init__(self, text: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.line = line
        self.column = column
        self.pointer: str | None = None
        self.excerpt = ""
        self.tag: Mapping[str, Any] | None = None
        self.place: tuple[Any, str] | None = None
        """While a schema is read: the subschema, and its keyword or ""."""

    def __str__(self) -> str:
        where = [] if self.pointer in (None, "#") else [str(self.pointer)]
        if self.line is not None:
            where.append(f"line {self.line}, column {self.column}")
        text = f"{self.text} ({', '.join(where)})" if where else self.text
        return f"{text}\n{self.excerpt}" if self.excerpt else text

    def show(self, text: str) -> None:
        """Add the line of `text`, the grammar, that the error is about."""
        if self.line is not None and self.column is not None and not self.excerpt:
            self.excerpt = excerpt_of(text, self.line, self.column)


class GrammarLimitError(GrammarError):
    """A grammar, or a text under it, needs more than a limit allows; the message names the limit."""


class UnsupportedKeywordError(GrammarError):
    """A JSON Schema has a keyword that cannot be enforced token by token; the message names it."""


def excerpt_of(text: str, line: int, column: int) -> str:
    """The line of a text, cut where it is long, and a caret below its column, both counted from 1; "" if the
    text has no such line."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            return ""
    end = text.find("\n", start)
    at = start + column - 1
    first = max(start, at - _WIDTH // 2)
    last = min(len(text) if end < 0 else end, first + _WIDTH)
    shown = "".join(one if one.isprintable() else " " for one in text[first:last])
    before, after = "…" * (first > start), "…" * (last < (len(text) if end < 0 else end))
    return f"  {before}{shown}{after}\n  {' ' * (len(before) + at - first)}^"
