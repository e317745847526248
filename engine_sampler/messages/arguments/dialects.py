"""Reads values in languages that are much like JSON: Python's keyword arguments, and Gemma's objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..alphabet import MarkerAlphabet
from ..events import DeviationError
from ..writing import NUMBER, escaped_json, quoted_json
from .reader import NOT_PLAIN, ArgumentsReader, begins_with_rest, check_depth, held_from, skip_space

_NUMBER_RUN = re.compile(r"[-+.\w]{1,401}")
_WORD_RUN = re.compile(r"[A-Za-z_]{1,9}")
_KEY_RUN = re.compile(r"[\w.$-]{1,257}")
_PLAIN = {quote: re.compile(rf"[^{quote}\\\n]*") for quote in "\"'"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|[^xuU0-7])", re.DOTALL)
_UNFINISHED = re.compile(r"\\(x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-7]{1,2})?\Z")
_SPECIAL = re.compile(rf"[{NOT_PLAIN}'<]").search
"""What does not just go on with a string, whatever its quote."""
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "\n": ""}


@dataclass(frozen=True, eq=False)
class Dialect:
    """How values are written.

    quote       what surrounds strings, which then have no escapes; "": Python's strings
    constants   the JSON of words
    is_called   whether the arguments are keywords without brackets around them, `name=value`
    bare_keys   whether the keys of objects stand without quotes
    """

    quote: str
    constants: Mapping[str, str]
    is_called: bool
    bare_keys: bool


def python_dialect() -> Dialect:
    """Python's literals, as the arguments of a call."""
    return Dialect("", {"True": "true", "False": "false", "None": "null"}, is_called=True, bare_keys=False)


def gemma_dialect(quote: str, alphabet: MarkerAlphabet) -> Dialect:
    """The objects of Gemma's models."""
    words = {word: word for word in ("true", "false", "null")}
    return Dialect(alphabet.encode(quote), words, is_called=False, bare_keys=True)


class DialectReader(ArgumentsReader):
    """Reads one object of a dialect.

    State: `_open` are the brackets that are open, with "(" for those of a call. `_state` is what comes next:
    value, first (a value, or the end of a list), key, first key, colon, after (a comma or an end), or string.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self._dialect = dialect
        self._state, self._open, self._quote = "start", "", ""
        self._is_key = False

    @property
    def special(self) -> Callable[[str], object] | None:
        return _SPECIAL if self._state == "string" else None

    def read(self, text: str, at: int, out: list[str]) -> int:
        if self._state == "start" and self._dialect.is_called:
            out.append("{")
            self._open, self._state = "(", "first key"
        before: tuple[int, str] | None = None
        while before != (at, self._state) and not self.is_done:
            before = at, self._state
            if self._state == "string":
                at = self._read_string(text, at, out)
                continue
            at = skip_space(text, at)
            if at < len(text):
                at = self._read_step(text, at, out)
        return at

    def _read_step(self, text: str, at: int, out: list[str]) -> int:
        state, character = self._state, text[at]
        if state in ("value", "first") and character != "]":
            return self._read_value(text, at, out)
        if state == "after" and character == ",":
            self._state = "value" if self._open[-1] == "[" else "key"
            out.append(", ")
            return at + 1
        if self._ends(character):
            return self._leave(at, out)
        if state in ("key", "first key"):
            return self._read_key(text, at, out)
        if state == "colon" and character == ("=" if self._open[-1] == "(" else ":"):
            self._state = "value"
            out.append(": ")
            return at + 1
        if state == "start" and character == "{":
            return self._enter("{", at, out)
        raise DeviationError(at, "the arguments are not in the form of their family")

    def _ends(self, character: str) -> bool:
        """Whether a character ends what is open."""
        if self._state not in ("after", "first", "first key"):
            return False
        return character == {"(": ")", "{": "}", "[": "]"}.get(self._open[-1:])

    def _leave(self, at: int, out: list[str]) -> int:
        kind, self._open = self._open[-1], self._open[:-1]
        out.append("]" if kind == "[" else "}")
        self._state = "after"
        self.is_done = not self._open
        return at if kind == "(" else at + 1  # the end of a call is not part of the arguments

    def _enter(self, character: str, at: int, out: list[str]) -> int:
        check_depth(len(self._open), at)
        self._open += character
        out.append(character)
        self._state = "first" if character == "[" else "first key"
        return at + 1

    # --- Keys and values ---

    def _read_key(self, text: str, at: int, out: list[str]) -> int:
        if not self._dialect.bare_keys and self._open[-1] == "{":
            return self._begin_string(text, at, out, is_key=True)
        key = _KEY_RUN.match(text, at)
        if key is None or len(key[0]) > 256:
            raise DeviationError(at, "the arguments have a name that is none")
        if key.end() == len(text):
            return at
        out.append(quoted_json(key[0]))
        self._state = "colon"
        return key.end()

    def _read_value(self, text: str, at: int, out: list[str]) -> int:
        character = text[at]
        if character in "{[":
            return self._enter(character, at, out)
        if character in "-0123456789":
            return self._read_word(_NUMBER_RUN, text, at, out)
        if character.isascii() and character.isalpha():
            return self._read_word(_WORD_RUN, text, at, out)
        return self._begin_string(text, at, out, is_key=False)

    def _read_word(self, run: re.Pattern[str], text: str, at: int, out: list[str]) -> int:
        """A number or a constant, once it is clear where it ends."""
        match = run.match(text, at)
        assert match is not None
        word = match[0]
        if match.end() == len(text) and len(word) < (401 if run is _NUMBER_RUN else 9):
            return at
        json = word if run is _NUMBER_RUN and NUMBER.fullmatch(word) else self._dialect.constants.get(word)
        if json is None:
            raise DeviationError(at, "the arguments have a value that is none")
        out.append(json)
        self._state = "after"
        return match.end()

    # --- Strings ---

    def _begin_string(self, text: str, at: int, out: list[str], is_key: bool) -> int:
        quotes = (self._dialect.quote,) if self._dialect.quote else ('"', "'")
        for quote in quotes:
            if text.startswith(quote, at):
                self._quote, self._state, self._is_key = quote, "string", is_key
                out.append('"')
                return at + len(quote)
            if begins_with_rest(quote, text, at):
                return at
        raise DeviationError(at, "the arguments have a value that is none")

    def _read_string(self, text: str, at: int, out: list[str]) -> int:
        if self._dialect.quote:
            found = text.find(self._quote, at)
            end = held_from(text, at, self._quote) if found < 0 else found
            if end > at:
                out.append(escaped_json(text[at:end]))
            return end if found < 0 else self._end_string(found, out)
        end = _PLAIN[self._quote].match(text, at).end()  # type: ignore[union-attr]
        if end > at:
            out.append(escaped_json(text[at:end]))
        if end == len(text):
            return end
        if text[end] == self._quote:
            return self._end_string(end, out)
        if text[end] == "\n":
            raise DeviationError(end, "a string of the arguments contains a line break")
        return self._read_escape(text, end, out)

    def _end_string(self, at: int, out: list[str]) -> int:
        out.append('"')
        self._state = "colon" if self._is_key else "after"
        return at + len(self._quote)

    def _read_escape(self, text: str, at: int, out: list[str]) -> int:
        if _UNFINISHED.match(text, at):
            return at
        found = _ESCAPE.match(text, at)
        if found is None:
            raise DeviationError(at, "a string of the arguments has an escape that is none")
        out.append(_escape_in_json(found[1], at))
        return found.end()


def _escape_in_json(escape: str, at: int) -> str:
    """An escape of Python's strings, without its backslash, in JSON."""
    if escape[0] in "xuU01234567":
        digits, base = (escape, 8) if escape[0].isdigit() else (escape[1:], 16)
        code = int(digits, base)
        if code > 0x10FFFF:
            raise DeviationError(at, "a string of the arguments has an escape that is none")
        return f"\\u{code:04x}" if 0xD800 <= code < 0xE000 else escaped_json(chr(code))
    known = _SIMPLE.get(escape, escape if escape in "\\'\"" else f"\\{escape}")
    return escaped_json(known)
