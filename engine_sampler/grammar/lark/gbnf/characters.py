"""The characters of a text in GBNF: blanks, names, and literals and classes with their escapes."""

from __future__ import annotations

import re
from typing import NoReturn

from ....base.errors import quoted
from ...work import spend
from ..statements import Lines

BLANK = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
BLANK_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_NEXT_LINE = re.compile(
    r"(?:[ \t\r\n]|#[^\r\n]*(?![^\r\n]))*(?=[|\"\[(<!.]|[A-Za-z0-9_.-]+(?![A-Za-z0-9_.-])"
    r"(?!(?:\[[^\]\r\n]*\])?[ \t\r\n]*::=))"
)
"""What separates a line from one that continues its rule, because it does not define another one."""
BLANKS, _LINE_ENDS = (" ", "\t", "#", "\r", "\n"), ("\r", "\n")
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", **{c: c for c in '\\"[]-'}}
_ESCAPES |= {
    "'": "'",
    "?": "?",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
    "/": "/",
    "^": "^",
}


class Characters:
    """A text and the position that has been read up to."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines = Lines(text)

    def _characters(self) -> str:
        """The text of a literal, without its escapes."""
        self._at += 1
        chars = []
        while not self._text.startswith('"', self._at):
            spend()
            chars.append(self._char('"'))
        self._at += 1
        return "".join(chars)

    def _char(self, end: str) -> str:
        """The next character of a literal or a class, with its escape decoded."""
        if self._at >= len(self._text):
            self._fail(repr(end))
        char = self._text[self._at]
        self._at += 1
        if char != "\\":
            return char
        if code := _CODE.match(self._text, self._at):
            value = int(code[1] or code[2] or code[3], 16)
            if value < 0x110000 and not 0xD800 <= value < 0xE000:
                self._at = code.end()
                return chr(value)
        escaped = _ESCAPES.get(self._text[self._at : self._at + 1])
        if escaped is None:
            self._fail("an escape such as \\n or \\u20AC")
        self._at += 1
        return escaped

    def _class_pattern(self) -> str:
        """A class as a regular expression in Lark."""
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        ranges = []
        while not self._text.startswith("]", self._at):
            spend(2)
            first = last = self._char("]")
            following = self._text[self._at + 1 : self._at + 2]
            if self._text.startswith("-", self._at) and following not in ("]", ""):
                self._at += 1
                last = self._char("]")
            if last < first:
                self._fail(f"a range that does not end before {quoted(first)}")
            ranges.append(_in_class(first) if first == last else f"{_in_class(first)}-{_in_class(last)}")
        if not ranges:
            self._fail("a character in the class")
        self._at += 1
        return f"/[{'^' if negated else ''}{''.join(ranges)}]/"

    # --- positions -------------------------------------------------------------------------------

    def _skip(self, blank: re.Pattern[str]) -> None:
        text = self._text
        if text[self._at : self._at + 1] in BLANKS and (found := blank.match(text, self._at)):
            self._at = found.end()
        at_line_end = blank is BLANK and text[self._at : self._at + 1] in _LINE_ENDS
        if at_line_end and (found := _NEXT_LINE.match(text, self._at)):
            self._at = found.end()

    def _expect(self, mark: str, blank: re.Pattern[str] | None) -> None:
        if not self._text.startswith(mark, self._at):
            self._fail(repr(mark))
        self._at += len(mark)
        if blank is not None:
            self._skip(blank)

    def _word(self, expected: str) -> str:
        found = NAME.match(self._text, self._at)
        if found is None:
            self._fail(expected)
        self._at = found.end()
        return found[0]

    def _fail(self, expected: str) -> NoReturn:
        rest = self._text[self._at : self._at + 12]
        position = f"before {quoted(rest)}" if rest else "at the end"
        raise self._lines.error(f"GBNF: expected {expected} {position}", self._at)


def in_string(char: str) -> str:
    """A character within a string in Lark."""
    if char in '"\\':
        return f"\\{char}"
    return char if " " <= char <= "~" else f"\\U{ord(char):08x}"


def _in_class(char: str) -> str:
    if char.isascii() and char.isprintable():
        return char if char.isalnum() else f"\\{char}"
    return f"\\U{ord(char):08x}"
