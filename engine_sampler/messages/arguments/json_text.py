"""Reads a JSON object or list, character by character, and what models write in its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ..events import DeviationError
from ..writing import escaped_json, json_value
from .reader import MAX_HELD, NOT_PLAIN, ArgumentsReader, check_depth, skip_space

JSON_BEGINS = ('{ "', "{ '", "{ }", '" {', '" "', "null")
"""With what a call's arguments begin, a blank for any white space: an object, such a one encoded in a string,
or nothing."""

MAX_GAP = 64
"""Maximum length of white space behind a comma that is kept."""

_RUNS = {quote: re.compile(rf"[^{quote}\\\x00-\x1f{also}]*") for quote, also in (('"', ""), ("'", '"'))}
_SPECIAL = {quote: re.compile(f"[{NOT_PLAIN}{quote}]").search for quote in "\"'"}
_ENCODED = re.compile(r'[^"\\]+')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
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
_PYTHON = {"T": ("rue", "true"), "F": ("alse", "false"), "N": ("one", "null")}
_CLOSES = {"}": "{", "]": "["}
_IN_WORDS = frozenset(("escape", "word", "python", "u1", "u2", "u3", "u4"))
_HEX_STATES = ("u1", "u2", "u3", "u4")


class JsonReader(ArgumentsReader):
    """Reads one value that begins with one of the characters `first`: an object, a list, or either.

    Besides JSON, it reads single quotes, True, False and None, control characters in strings, and commas
    before the ends of objects and lists. An object may be encoded in a string, be null, or be missing.

    State: `_state` is what comes next, or within what the text is: value, first (a value, or the end of a
    list), key, first key, colon, after (a comma or an end), string, escape, u1 to u4 (digits of an escape),
    word, python (a word that is given already), or a state of a number. `_gap` is a comma, with white space
    behind it, that may be followed by an end.
    """

    def __init__(self, first: str) -> None:
        super().__init__()
        self._first, self._state = first, "start"
        self._open = self._rest = self._gap = ""
        self._quote = '"'
        self._is_key = False

    @property
    def special(self) -> Callable[[str], object] | None:
        return _SPECIAL[self._quote] if self._state == "string" else None

    def read(self, text: str, at: int, out: list[str]) -> int:
        if self._state == "start":
            at = skip_space(text, at)
            if at < len(text) and self._first == "{" and text[at] != "{":
                at = self._read_other(text, at, out)
                if self._inner is None:
                    return at
        return self._read(text, at, out) if self._inner is None else self._read_encoded(text, at, out)

    @property
    def closing(self) -> str:
        """The shortest text that completes what has been given."""
        state = self._state
        if state == "start":
            return "{}" if "{" in self._first else "[]"
        end = ""
        if state in _MOVES and state not in _WHOLE:
            end = "0"
        elif state == "word":
            end = self._rest
        elif state in ("string", *_HEX_STATES):
            end = "0" * (4 - _HEX_STATES.index(state)) if state[0] == "u" else ""
            end += '": null' if self._is_key else '"'
        elif state == "colon":
            end = ": null"
        elif state == "key":
            end = '"": null'
        elif state == "value":
            end = "null"
        return end + "".join("}" if one == "{" else "]" for one in reversed(self._open))

    @property
    def is_dangling(self) -> bool:
        """Whether what has come last says nothing by itself: a key without a value, a comma, a part of an
        escape, a sign."""
        state = self._state
        is_key = self._is_key and state == "string"
        is_part = state in ("escape", *_HEX_STATES) or (state in _MOVES and state not in _WHOLE)
        return is_key or is_part or state in ("key", "colon", "value")

    # --- What stands in place of an object ---

    def _read_other(self, text: str, at: int, out: list[str]) -> int:
        if text[at] == '"':
            self._inner, self._state = JsonReader("{"), "encoded"
            return at + 1
        if text[at] == "}" or text.startswith("null", at):
            out.append("{}")
            self.is_done = True
            return at if text[at] == "}" else at + 4
        if "null".startswith(text[at:]):
            return at
        raise DeviationError(at, "the arguments are not JSON")

    def _read_encoded(self, text: str, at: int, out: list[str]) -> int:
        """An object that is encoded in a string."""
        inner = self._inner
        while at < len(text):
            if text[at] == '"':
                if not inner.is_done and inner._state != "start":
                    raise DeviationError(at, "the arguments are not JSON")
                out.append("" if inner.is_done else "{}")
                self.is_done = True
                return at + 1
            run = _ENCODED.match(text, at) or _ESCAPE.match(text, at)
            if run is None:
                if len(text) - at < 6 and text[at + 1 : at + 2] in ("", "u"):
                    return at
                raise DeviationError(at, "a string of the arguments has an escape that is none")
            piece = _decoded(run[0])
            if inner.is_done and piece.strip():
                raise DeviationError(at, "the arguments are not JSON")
            try:
                inner.read(piece, 0, out)
            except DeviationError as error:
                raise DeviationError(at, str(error)) from None
            at = run.end()
        return at

    # --- JSON ---

    def _read(self, text: str, at: int, out: list[str]) -> int:
        end, begin = len(text), at
        try:
            while at < end and not self.is_done:
                state, instead = self._state, None
                if state == "string":
                    at = _RUNS[self._quote].match(text, at).end()  # type: ignore[union-attr]
                    if at == end:
                        break
                    before = at
                    instead = self._leave_run(text[at])
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
                    continue
                elif text[at] in " \t\r\n" and state not in _IN_WORDS:
                    before, at = at, skip_space(text, at)
                    if not self._gap:
                        continue
                    self._gap += text[before : min(at, before + MAX_GAP - len(self._gap))]
                    instead = ""
                else:
                    before = at
                    instead = self._step(text[at], at)
                    at += 1
                if instead is not None:
                    out.append(text[begin:before] + instead)
                    begin = at
        except DeviationError as error:
            at = error.at
            raise
        finally:
            if at > begin:
                out.append(text[begin:at])
        return at

    def _leave_run(self, character: str) -> str | None:
        """Read the character at which a run of plain characters of a string ends; returns what it is in JSON,
        or None if that is itself."""
        if character == self._quote:
            self._state = "colon" if self._is_key else "after"
            return '"'
        if character != "\\":
            return escaped_json(character)
        self._state = "escape"
        return ""

    def _step(self, character: str, at: int) -> str | None:
        """One character that is neither white space nor in the middle of a string or number; returns what it
        is in JSON, or None if that is itself."""
        state, gap = self._state, self._gap
        if state == "after" and character == ",":
            self._state = "key" if self._open[-1] == "{" else "value"
            self._gap = ","
            return ""
        if (state in ("after", "first", "first key") or gap) and _CLOSES.get(character) == self._open[-1:]:
            self._open, self._gap, self._state = self._open[:-1], "", "after"
            self.is_done = not self._open
            return None
        instead = self._inside(character, at)
        if not gap:
            return instead
        self._gap = ""
        return gap + (character if instead is None else instead)

    def _inside(self, character: str, at: int) -> str | None:
        state = self._state
        if state == "start" and character in self._first:
            self._enter(character, at)
        elif state in ("key", "first key") and character in "\"'":
            self._state, self._is_key, self._quote = "string", True, character
            return '"'
        elif state in ("value", "first"):
            return self._begin_value(character, at)
        elif state == "colon" and character == ":":
            self._state = "value"
        elif state == "escape" and character in "'\"\\/bfnrtu":
            self._state = "u1" if character == "u" else "string"
            return character if character == "'" else f"\\{character}"
        elif state in _HEX_STATES and character in _HEX:
            self._state = {"u1": "u2", "u2": "u3", "u3": "u4"}.get(state, "string")
        elif state in ("word", "python") and character == self._rest[0]:
            self._rest = self._rest[1:]
            self._state = state if self._rest else "after"
            return "" if state == "python" else None
        else:
            raise DeviationError(at, "the arguments are not JSON")
        return None

    def _begin_value(self, character: str, at: int) -> str | None:
        if character in "{[":
            self._enter(character, at)
        elif character in "\"'":
            self._state, self._is_key, self._quote = "string", False, character
            return '"'
        elif character in _FIRST:
            self._state = _FIRST[character]
        elif character in _WORDS:
            self._state, self._rest = "word", _WORDS[character][1:]
        elif character in _PYTHON:
            self._state = "python"
            self._rest, json = _PYTHON[character]
            return json
        else:
            raise DeviationError(at, "the arguments are not JSON")
        return None

    def _enter(self, character: str, at: int) -> None:
        check_depth(len(self._open), at)
        self._open += character
        self._state = "first key" if character == "{" else "first"


def _decoded(piece: str) -> str:
    """Plain characters, or what an escape stands for; itself, if only a string within can contain that."""
    if piece[0] != "\\" or (piece[1] == "u" and int(piece[2:], 16) > 127):
        return piece
    return str(json_value(f'"{piece}"'))


class CertainJson:
    """What of the growing text of a JSON object stays if it is cut: all but what is dangling at its end. That
    is held back, up to a limit."""

    def __init__(self) -> None:
        self._reader = self._before = JsonReader("{")
        self._held = ""

    def copy(self) -> CertainJson:
        """One in the same state, which goes on independently."""
        new = CertainJson()
        new._reader, new._before, new._held = self._reader.copy(), self._before, self._held
        return new

    def feed(self, text: str) -> str:
        """What is certain now: the text, or nothing of it."""
        if not self._held:
            self._before = self._reader.copy()
        self._reader.read(text, 0, [])
        self._held += text
        is_held = self._reader.is_dangling and len(self._held) <= MAX_HELD
        return "" if is_held else self._take(len(self._held))

    def cut(self) -> str:
        """What is certain of the rest if the text ends here."""
        certain, reader = 0, self._before.copy()
        for number, character in enumerate(self._held, 1):
            reader.read(character, 0, [])
            certain = certain if reader.is_dangling else number
        return self._take(certain)

    def _take(self, length: int) -> str:
        text, self._held = self._held[:length], ""
        return text


def completion(text: str) -> str:
    """The shortest text that makes a JSON object of its beginning."""
    reader = JsonReader("{")
    reader.read(text, 0, [])
    return "" if reader.is_done else reader.closing
