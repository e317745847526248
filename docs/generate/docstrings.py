"""Docstrings as Markdown.

A docstring is a summary, then paragraphs. In a paragraph, lines with two columns are a list of terms, and
indented lines continue the line before them; one that is indented as a whole is code. Powers, 2^−20 or
2^(n + 1), are set as such.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby

from .tables import table

_TERM = re.compile(r"^(\S(?:.*?\S)?) {2,}(\S.*)$")
_LEAD = re.compile(r"^(Formula|Sources?|Breakers|Neutral|The history|Semantics)\b([^:.]*:)")
_LATER = re.compile(r" (?=(?:Sources?|Semantics): )")
_NUMBERED = re.compile(r"^(\d+\.|-) ")
_NAME = re.compile(r"(?<![\w.])([A-Za-z][A-Za-z0-9]*_\w+(?:\.cpp|=\w+|\(\w*\))?)(?!\w)")

LONGEST_CELL = 40
"""The most words in a cell of a table."""

_POWER = re.compile(r"\^(?:\(([^()]*)\)|([−-]?[\w.]*\w))")


def summary(owner: type) -> str:
    """The first paragraph of the docstring of a class, in one line."""
    return inline(" ".join(_paragraphs(owner.__doc__)[0]))


def body(owner: type) -> str:
    """All further paragraphs, as Markdown."""
    return "\n\n".join(_block(lines) for lines in _paragraphs(owner.__doc__)[1:])


def markdown(text: str | None) -> str:
    """A whole docstring as Markdown."""
    return "\n\n".join(_block(lines) for lines in _paragraphs(text))


def first_sentence(text: str | None) -> str:
    """The first sentence of a docstring."""
    return re.split(r"(?<=[^.]\.) ", inline(" ".join(_paragraphs(text)[0])))[0]


def outline(text: str) -> str:
    """A docstring with headings at the margin and indented text below each, as Markdown: a section for each
    heading, a point for each line that begins after the end of a sentence."""
    parts = []
    for section in re.split(r"\n\n(?=\S[^\n]*\n    )", inspect.cleandoc(text))[1:]:
        heading, *lines = section.split("\n")
        statements = re.split(r"(?<=\.)\n", "\n".join(line.strip() for line in lines if line.startswith(" ")))
        points = [f"- {inline(statement.replace(chr(10), ' '))}" for statement in statements]
        parts.append("\n".join([f"### {heading}", "", *points]))
    return "\n\n".join(parts)


def _paragraphs(text: str | None) -> list[list[str]]:
    return [part.splitlines() for part in re.split(r"\n\s*\n", inspect.cleandoc(text or ""))]


def _block(lines: list[str]) -> str:
    if not any(lines):
        return ""
    if all(line.startswith("    ") for line in lines):
        return _code(lines)
    if any(_TERM.match(line) or _NUMBERED.match(line) for line in lines):
        return _mixed(lines)
    return inline(" ".join(lines))


def _code(lines: list[str]) -> str:
    """A block of code, in colour if it is Python. "py": the blocks of "python" on a page are run."""
    text = "\n".join(line[4:] for line in lines)
    try:
        ast.parse(text)
    except SyntaxError:
        return f"```text\n{text}\n```"
    return f"```py\n{text}\n```"


def _mixed(lines: Iterable[str]) -> str:
    """A paragraph with points in it: terms, numbers or dashes, and the indented lines that continue them."""
    items: list[list[str]] = []
    for line in lines:
        ends_point = bool(items) and _kind(items[-1][0]) != "text" and not line.startswith(" ")
        if not items or _kind(line) != "text" or ends_point:
            items.append([])
        items[-1].append(line.strip())
    return "\n\n".join(
        _LAYOUT[kind](list(group)) for kind, group in groupby(items, lambda item: _kind(item[0]))
    )


def _kind(line: str) -> str:
    return "term" if _TERM.match(line) else "point" if _NUMBERED.match(line) else "text"


def _terms(items: list[list[str]]) -> str:
    """A list of terms, as a table; as points if one of them says more than fits a cell."""
    matches = [(_TERM.match(lines[0]), lines[1:]) for lines in items]
    rows = [[_names(m[1]), inline(" ".join([m[2], *more]))] for m, more in matches if m]
    if any(len(meaning.split()) > LONGEST_CELL for _, meaning in rows):
        return "\n".join(f"- {name}: {meaning}" for name, meaning in rows)
    return table(["name", "meaning"], rows)


def _names(term: str) -> str:
    names = [term] if set("(`") & set(term) else term.split(", ")
    return term if "`" in term else ", ".join(f"`{name}`" for name in names)


_LAYOUT: Mapping[str, Callable[[list[list[str]]], str]] = {
    "term": _terms,
    "point": lambda items: "\n".join(inline(" ".join(lines)) for lines in items),
    "text": lambda items: "\n\n".join(inline(" ".join(lines)) for lines in items),
}


def inline(text: str) -> str:
    """Text with names as code, what Markdown would interpret escaped, each source in a paragraph, and a
    formula set off."""
    parts = re.split(r"(`[^`]*`)", text.strip())
    parts = [part if part.startswith("`") else _plain(part) for part in parts]
    led = [_LEAD.sub(r"**\1**\2", part) for part in _LATER.split("".join(parts))]
    return "\n\n".join(f"> {part}" if part.startswith("**Formula**") else part for part in led)


def _plain(text: str) -> str:
    text = text.replace("<", "&lt;").replace(">", "&gt;").replace("*", r"\*")
    text = _POWER.sub(lambda match: f"<sup>{match[1] or match[2]}</sup>", text)
    return _NAME.sub(r"`\1`", text)
