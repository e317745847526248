"""Docstrings as Markdown.

A docstring is a summary, then paragraphs. In a paragraph, lines with two columns are a list of terms, and
indented lines continue the line before them; one that is indented as a whole is code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from itertools import groupby

_TERM = re.compile(r"^(\S(?:.*?\S)?) {2,}(\S.*)$")
_LEAD = re.compile(r"^(Formula|Sources?|Breakers|Neutral|The history|Semantics)\b([^:.]*:)")
_LATER = re.compile(r" (?=(?:Sources?|Semantics): )")
_NUMBERED = re.compile(r"^(\d+\.|-) ")
_NAME = re.compile(r"(?<![\w.])([A-Za-z][A-Za-z0-9]*_\w+(?:=\w+|\(\w*\))?)(?!\w)")


def summary(owner: type) -> str:
    """The first paragraph of the docstring of a class, in one line."""
    return inline(" ".join(_paragraphs(owner)[0]))


def body(owner: type) -> str:
    """All further paragraphs, as Markdown."""
    return "\n\n".join(_block(lines) for lines in _paragraphs(owner)[1:])


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


def _paragraphs(owner: type) -> list[list[str]]:
    text = inspect.cleandoc(owner.__doc__ or "")
    return [part.splitlines() for part in re.split(r"\n\s*\n", text)]


def _block(lines: list[str]) -> str:
    if all(line.startswith("    ") for line in lines):
        return "\n".join(lines)
    if any(_TERM.match(line) or _NUMBERED.match(line) for line in lines):
        return _mixed(lines)
    return inline(" ".join(lines))


def _mixed(lines: Iterable[str]) -> str:
    """A paragraph with points in it: terms, numbers or dashes, and the indented lines that continue them."""
    items: list[list[str]] = []
    for line in lines:
        ends_point = bool(items) and _is_point(items[-1][0]) and not line.startswith(" ")
        if not items or _is_point(line) or ends_point:
            items.append([])
        items[-1].append(line.strip())
    texts = [_item(item) for item in items]
    return "\n\n".join(
        "\n".join(group) for _, group in groupby(texts, lambda text: bool(_NUMBERED.match(text)))
    )


def _is_point(line: str) -> bool:
    return bool(_TERM.match(line) or _NUMBERED.match(line))


def _item(lines: list[str]) -> str:
    if term := _TERM.match(lines[0]):
        return f"- `{term[1].strip('`')}`: {inline(' '.join([term[2], *lines[1:]]))}"
    return inline(" ".join(lines))


def inline(text: str) -> str:
    """Text with names as code, what Markdown would interpret escaped, and each source in a paragraph."""
    parts = re.split(r"(`[^`]*`)", text.strip())
    parts = [part if part.startswith("`") else _plain(part) for part in parts]
    return "\n\n".join(_LEAD.sub(r"**\1**\2", part) for part in _LATER.split("".join(parts)))


def _plain(text: str) -> str:
    text = text.replace("<", "&lt;").replace(">", "&gt;").replace("*", r"\*")
    return _NAME.sub(r"`\1`", text)
