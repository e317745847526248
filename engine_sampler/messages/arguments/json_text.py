"""Reads a JSON object or list, character by character."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ..events import DeviationError
from .reader import NOT_PLAIN, ArgumentsReader, check_depth, skip_space

_RUN = re.compile(r'[^"\\\x00-\x1f]*')
_SPECIAL = re.compile(f"[{NOT_PLAIN}]").search
_HEX = frozenset("0123456789abcdefABCDEF")

_DIGITS = "0123456789"
_NUMBERS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "-": (("0", "zero"), ("123456789", "int")),
    "zero": ((".", "."), ("eE", "e")),
    "int": ((_DIGITS, "int"), (".", "."), ("eE", "e")),
    ".": ((_DIGITS, "fraction"),),
    "fraction": ((_DIGITS, "fraction"), ("eE", "e")),
    "e": (("+-", "sign"), (_DIGITS, "exponent")),
    "sign": ((_DIGITS, "exponent"),),
    "exponent": ((_DIGITS, "exponent"),),
}
"""The states of a number, and what leads from one to another (RFC 8259, 6)."""
_MOVES = {
    state: {character: target for characters, target in moves for character in characters}
    for state, moves in _NUMBERS.items()
}
_FIRST = {"-": "-", "0": "zero", **dict.fromkeys("123456789", "int")}
_WHOLE = frozenset(("zero", "int", "fraction", "exponent"))
_WORDS = {"t": "true", "f": "false", "n": "null"}
_CLOSES = {"}": "{", "]": "["}


class JsonReader(ArgumentsReader):
    """Reads one value that begins with one of the characters `first`: an object, a list, or either.

    State: `_state` is what comes next, or within what the text is: value, first (a value, or the end of a
    list), key, first key, colon, after (a comma or an end), string, escape, u1 to u4 (digits of an escape),
    word, or a state of a number.
    """

    def __init__(self, first: str) -> None:
        super().__init__()
        self._first, self._state = first, "start"
        self._open = ""
        self._is_key = False
        self._rest = ""

    @property
    def special(self) -> Callable[[str], object] | None:
        return _SPECIAL if self._state == "string" else None

    def read(self, text: str, at: int, out: list[str]) -> int:
        begin = at
        try:
            if self._state == "start":
                begin = at = skip_space(text, at)
            at = self._read(text, at)
        except DeviationError as error:
            at = error.at
            raise
        finally:
            if at > begin:
                out.append(text[begin:at])
        return at

    def _read(self, text: str, at: int) -> int:
        end = len(text)
        while at < end and not self.is_done:
            state = self._state
            if state == "string":
                at = _RUN.match(text, at).end()  # type: ignore[union-attr]
                if at < end:
                    self._leave_run(text[at], at)
                    at += 1
            elif state in _MOVES:
                target = _MOVES[state].get(text[at])
                if target is not None:
                    self._state = target
                    at += 1
                elif state in _WHOLE:
                    self._state = "after"
                else:
                    raise DeviationError(at, "a number of the arguments is not complete")
            elif text[at] in " \t\r\n" and state not in ("escape", "word", "u1", "u2", "u3", "u4"):
                at = skip_space(text, at)
            else:
                self._step(text[at], at)
                at += 1
        return at

    def _leave_run(self, character: str, at: int) -> None:
        """The character at which a run of plain characters of a string ends."""
        if character == '"':
            self._state = "colon" if self._is_key else "after"
        elif character == "\\":
            self._state = "escape"
        else:
            raise DeviationError(at, "a string of the arguments contains a control character")

    def _step(self, character: str, at: int) -> None:
        """One character that is neither white space nor in the middle of a string or number."""
        state = self._state
        if state == "start" and character in self._first:
            self._enter(character, at)
        elif state in ("value", "first") and self._begin_value(character, at):
            pass
        elif state in ("key", "first key") and character == '"':
            self._state, self._is_key = "string", True
        elif state == "colon" and character == ":":
            self._state = "value"
        elif state == "after" and character == ",":
            self._state = "key" if self._open[-1] == "{" else "value"
        elif state in ("after", "first", "first key") and _CLOSES.get(character) == self._open[-1:]:
            self._open = self._open[:-1]
            self._state = "after"
            self.is_done = not self._open
        elif state == "escape" and character in '"\\/bfnrtu':
            self._state = "u1" if character == "u" else "string"
        elif state in ("u1", "u2", "u3", "u4") and character in _HEX:
            self._state = {"u1": "u2", "u2": "u3", "u3": "u4"}.get(state, "string")
        elif state == "word" and character == self._rest[0]:
            self._rest = self._rest[1:]
            self._state = "word" if self._rest else "after"
        else:
            raise DeviationError(at, "the arguments are not JSON")

    def _begin_value(self, character: str, at: int) -> bool:
        if character in "{[":
            self._enter(character, at)
        elif character == '"':
            self._state, self._is_key = "string", False
        elif character in _FIRST:
            self._state = _FIRST[character]
        elif character in _WORDS:
            self._state, self._rest = "word", _WORDS[character][1:]
        else:
            return False
        return True

    def _enter(self, character: str, at: int) -> None:
        check_depth(len(self._open), at)
        self._open += character
        self._state = "first key" if character == "{" else "first"
