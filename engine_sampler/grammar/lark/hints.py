"""What the first mistakes in Lark's language are meant for: lark's parser only says where they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ...base.errors import close_matches
from ..errors import GrammarError
from .library import library_definitions

_MARKS = {
    "'": 'a text stands between double quotes: "a"',
    "=": 'a colon defines a rule: start: "a"',
    ";": "a definition ends with its line, without a semicolon",
}
_CLASS = re.compile(r"\[[^\]\s\"/]*[^\]\s\"/]-[^\]\s\"/]+\][*+?]?")
_MISSING = re.compile(r"Rule '(\w+)' used but not defined")
_RULE_IN_TERMINAL = re.compile(r"Rules aren't allowed inside terminals \((\w+) in (\w+)\)")
_DEFINED = re.compile(r"^[?!]{0,2}([A-Za-z_]\w{0,80})(?=[^:\n]{0,200}:)", re.MULTILINE)
_IMPORTED = re.compile(
    r"%import[ \t]+([\w.]{1,200})\.(\w{1,80})|%import[ \t]+([\w.]{1,200})[ \t]*\(([^)\n]{1,2000})\)"
)
_MAX_SEARCHED = 50_000
"""The most characters of a grammar in which a name is searched."""


@contextmanager
def hinting(text: str) -> Iterator[None]:
    """Say in a GrammarError of the block about the grammar `text` what may be meant, if that is known."""
    try:
        yield
    except GrammarError as error:
        if error.line is not None and error.column is not None:
            lines = text.split("\n", error.line)
            line = lines[error.line - 1] if error.line <= len(lines) else ""
            _hint(error, text[:_MAX_SEARCHED], line, error.column - 1)
        raise


def _hint(error: GrammarError, text: str, line: str, at: int) -> None:
    written = next(
        (one for one in _CLASS.finditer(line[:_MAX_SEARCHED]) if one.start() <= at < one.end()), None
    )
    missing = _MISSING.match(error.text)
    if written and (missing or error.text.startswith("Unmatched")):
        error.text += f"; a class of characters stands between slashes: /{written[0]}/"
    elif missing:
        error.text += _meant(missing[1], text)
    elif error.text.startswith("Unexpected input") and line[at : at + 1] in _MARKS:
        error.text += f": {_MARKS[line[at]]}"
    elif found := _RULE_IN_TERMINAL.match(error.text):
        rule, terminal = found.groups()
        user = "%ignore" if terminal.startswith("__IGNORE_") else f"the terminal {terminal}"
        error.text = (
            f"{user} takes terminals, and {rule} is a rule: terminals have names of capitals, {rule.upper()}"
        )


def _meant(name: str, text: str) -> str:
    """Which of the names that are defined, or may be imported, a name that is not may be meant for."""
    for path, one, other, several in _IMPORTED.findall(text):
        if name in (one, *re.findall(r"\w+", several)):
            known = library_definitions(path or other)
            near = close_matches(name, known)
            return (
                f"; {path or other} has no {name}" + (f": is {near[0]} meant?" if near else "")
                if known
                else ""
            )
    near = close_matches(name, _DEFINED.findall(text))
    return f"; is {near[0]} meant?" if near else ""
