"""What a docstring says of a function and its parameters, in Google's, NumPy's or Sphinx's style."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_SECTIONS = ("args", "arguments", "parameters", "params", "keyword args", "other parameters")


class Docstring(NamedTuple):
    """The text before the first section, and the descriptions of parameters by name."""

    text: str
    parameters: dict[str, str]


def read_docstring(docstring: str) -> Docstring:
    """The parts of a docstring; its indentation is that of `inspect.getdoc`."""
    lines = docstring.splitlines()
    first = next((i for i in range(len(lines)) if _begins_section(lines, i)), len(lines))
    text = "\n".join(lines[:first]).strip()
    return Docstring(text, dict(_parameters(lines[first:])))


def _begins_section(lines: list[str], at: int) -> bool:
    line = lines[at]
    if line.startswith((":param", ":return", ":raises")):
        return True
    below = lines[at + 1] if at + 1 < len(lines) else ""
    is_underlined = bool(line.strip()) and len(below) >= 3 and set(below) == {"-"}
    is_google = line[:1].isupper() and line.endswith(":") and line.count(" ") <= 1 and below.startswith(" ")
    return is_underlined or is_google


def _parameters(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Names and descriptions: an entry begins less deep than what describes it further."""
    is_listing, depth, at = False, 0, 0
    while at < len(lines):
        line, end = lines[at], at + 1
        if line.startswith(":param"):
            end = _end(lines, at, 0)
            head, _, rest = line[1:].partition(":")
            yield head.split()[-1], _joined([rest, *lines[at + 1 : end]])
        elif _begins_section(lines, at):
            is_listing = line.rstrip(":").strip().lower() in _SECTIONS
            is_underlined = set(lines[end]) == {"-"} if end < len(lines) else False
            end += is_underlined
            depth = _depth(lines[end]) if end < len(lines) else 0
        elif is_listing and line.strip() and _depth(line) == depth:
            end = _end(lines, at, depth)
            head, _, rest = line.strip().partition(":")
            below = lines[at + 1 : end]
            text = below if depth == 0 else [rest, *below]  # in NumPy's style, a type is beside the name
            yield head.split("(")[0].strip().lstrip("*"), _joined(text)
        at = end


def _end(lines: list[str], at: int, depth: int) -> int:
    """The number of the line behind an entry: the next one with text that is not deeper."""
    behind = range(at + 1, len(lines))
    return next((i for i in behind if lines[i].strip() and _depth(lines[i]) <= depth), len(lines))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
