"""Reads values in languages that are much like JSON: Python's literals, JSON itself, and Gemma's objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ...grammar.structural_tag.arguments import MAX_NAME
from ..alphabet import MarkerAlphabet
from ..events import DeviationError
from ..schemas import ANYTHING, TYPES, SchemaView
from ..writing import escaped_json, json_value, quoted_json
from .literals import number_json, scalar_json, typed_json, word_json
from .reader import (
    MAX_HELD,
    NOT_PLAIN,
    ArgumentsReader,
    begins_with_rest,
    check_depth,
    held_from,
    skip_space,
)

_MAX_RUN = 1024
_WORD_RUN = re.compile(rf"[-+.\w]{{1,{_MAX_RUN}}}")
_NUMBER_RUN = re.compile(r"-?[1-9][0-9]*")
_DIGITS = re.compile(r"[0-9]*")
_NO_DIGITS = re.compile(r"[^0-9]").search
_BARE_RUN = re.compile(rf"[^,{{}}\[\]\n]{{1,{_MAX_RUN}}}")
_KEY_RUN = re.compile(rf"[\w.$-]{{1,{MAX_NAME + 1}}}")
_PLAIN = {quote: re.compile(rf"[^{quote}\\]*") for quote in "\"'"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|[^xuU0-7])", re.DOTALL)
_UNFINISHED = re.compile(r"\\(x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-7]{1,2})?\Z")
_SPECIAL = re.compile(rf"[{NOT_PLAIN}'<]").search
"""What does not just go on with a string, whatever its quote."""
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "\n": ""}
_CLOSING = {"(": ")", "{": "}", "[": "]", "tuple": ")", "set": "}", "?": "}"}
_NO_VALUE = "the arguments have a value that is none"


@dataclass(frozen=True, eq=False)
class Dialect:
    """How values are written.

    begin       the brackets of which one begins the arguments; "(": it has been read, and they are keywords
                of Python, `name=value`
    quotes      what surrounds strings, longer ones first
    mark        the one of them within which there are no escapes; "": there are some in all
    is_bare     whether the keys of objects, and strings that say nothing else, may stand without quotes
    """

    begin: str
    quotes: tuple[str, ...]
    mark: str = ""
    is_bare: bool = False

    @property
    def is_python(self) -> bool:
        """Whether it has Python's sets and tuples, which are lists in JSON."""
        return self.begin == "("


LITERALS = Dialect("{[", ('"', "'"))
"""Objects and lists as JSON or as Python writes them."""

KEYWORDS = Dialect("(", ('"""', "'''", '"', "'"))
"""Python's literals, as the arguments of a call."""


def gemma_dialect(quote: str, alphabet: MarkerAlphabet) -> Dialect:
    """The objects of Gemma's models, with what surrounds strings."""
    mark = alphabet.encode(quote)
    return Dialect("{", (mark, '"', "'"), mark, is_bare=True)


def nested_json(text: str, view: SchemaView = ANYTHING) -> str | None:
    """The JSON of a text that is an object or a list; None for any other."""
    reader, out = DialectReader(LITERALS, view), list[str]()
    try:
        end = reader.read(text, 0, out)
    except DeviationError:
        return None
    return "".join(out) if reader.is_done and skip_space(text, end) == len(text) else None


class _Open(NamedTuple):
    """What is open: "(" (a call), "{", "[", "set", "tuple", or "?", a set or an object of Python."""

    kind: str
    view: SchemaView
    size: int = 0


class DialectReader(ArgumentsReader):
    """Reads one object or list of a dialect.

    State: `_state` is what comes next: value, first (a value, or the end), key, first key, colon, after (a
    comma or an end), undecided (after the first element of a set, or a key), digits (of a whole number, which
    are given as they come), or string. `_keeps` says of a string what it is held for, until its end: key,
    element (the first one of a set, or a key) or typed (its schema allows no strings); "": it is given as it
    grows.
    """

    def __init__(self, dialect: Dialect, view: SchemaView) -> None:
        super().__init__()
        self._dialect, self._view = dialect, view
        self._state, self._quote, self._keeps, self._kept = "start", "", "", ""
        self._open: tuple[_Open, ...] = ()

    @property
    def held(self) -> str:
        return self._quote + self._kept if self._keeps else self._kept

    @property
    def special(self) -> Callable[[str], object] | None:
        if self._state == "digits":
            return _NO_DIGITS
        return _SPECIAL if self._state == "string" and not self._keeps else None

    def read(self, text: str, at: int, out: list[str]) -> int:
        if self._state == "start" and self._dialect.is_python:
            self._enter("(", at, out)
        before: tuple[int, str] | None = None
        while before != (at, self._state) and not self.is_done:
            before = at, self._state
            if self._state == "string":
                at = self._read_string(text, at, out)
                continue
            if self._state == "digits":
                at = self._read_digits(text, at, out)
                continue
            at = skip_space(text, at)
            if at < len(text):
                at = self._read_step(text, at, out)
        return at

    def _read_step(self, text: str, at: int, out: list[str]) -> int:
        state, character = self._state, text[at]
        if state == "undecided":
            return self._decide(character, at, out)
        if state in ("after", "first", "first key") and character == _CLOSING[self._open[-1].kind]:
            return self._leave(at, out)
        if state in ("value", "first"):
            return self._read_value(text, at, out)
        if state == "after" and character == ",":
            self._state = "first key" if self._open[-1].kind in "({" else "first"  # or the end
            return at + 1
        if state == "first key":
            return self._read_key(text, at, out)
        if state == "colon" and character in ":=":
            self._state = "value"
            return at + 1
        if state == "start" and character in self._dialect.begin:
            return self._enter(character, at, out)
        raise DeviationError(at, "the arguments are not in the form of their family")

    # --- Brackets ---

    def _enter(self, character: str, at: int, out: list[str]) -> int:
        check_depth(len(self._open), at)
        kind = character
        if self._dialect.is_python and self._open:
            kind = {"{": "?", "(": "tuple"}.get(character, character)
        if kind != "?":
            out.append("[" if kind in ("[", "tuple") else "{")
        self._open += (_Open(kind, self._view),)
        self._state = "first key" if kind in ("(", "{") else "first"
        return at + 1

    def _leave(self, at: int, out: list[str]) -> int:
        kind, self._open = self._open[-1].kind, self._open[:-1]
        out.append({"?": "{}", "(": "}", "{": "}"}.get(kind, "]"))
        self._state = "after"
        self.is_done = not self._open
        return at if kind == "(" else at + 1  # the end of a call is not part of the arguments

    def _decide(self, character: str, at: int, out: list[str]) -> int:
        """Whether what has begun with one element is a set or an object."""
        element, self._kept = self._kept, ""
        if character == ":":
            self._become("{", out)
            self._put_key(element, out)
        else:
            self._become("set", out)
            self._begin_item(out)
            out.append(element)
            self._state = "after"
        return at

    def _become(self, kind: str, out: list[str]) -> None:
        self._open = (*self._open[:-1], self._open[-1]._replace(kind=kind))
        out.append("{" if kind == "{" else "[")

    def _begin_item(self, out: list[str]) -> None:
        """A member or an item begins."""
        inside = self._open[-1]
        if inside.size:
            out.append(", ")
        self._view = inside.view.item(inside.size)
        self._open = (*self._open[:-1], inside._replace(size=inside.view.next_index(inside.size)))

    # --- Keys and values ---

    def _read_key(self, text: str, at: int, out: list[str]) -> int:
        is_keyword, dialect = self._open[-1].kind == "(", self._dialect
        key = _KEY_RUN.match(text, at) if dialect.is_bare or dialect.is_python else None
        if key is None and not is_keyword:
            return self._begin_string(text, at, out, "key")
        if key is not None and key.end() == len(text) and len(key[0]) <= MAX_NAME:
            return at
        name = key[0] if key else ""
        json = quoted_json(name) if is_keyword or dialect.is_bare else scalar_json(name)
        if json is None or not 0 < len(name) <= MAX_NAME:
            raise DeviationError(at, "the arguments have a name that is none")
        self._put_key(json, out)
        return at + len(name)

    def _put_key(self, json: str, out: list[str]) -> None:
        """Give a key, in JSON; what is no string becomes one."""
        self._begin_item(out)
        if json[0] != '"':
            json = quoted_json(json)
        name = json_value(json) if "\\" in json else json[1:-1]
        self._view = self._open[-1].view.member(name)
        out.append(f"{json}: ")
        self._state = "colon"

    def _read_value(self, text: str, at: int, out: list[str]) -> int:
        character, is_undecided = text[at], self._open[-1].kind == "?"
        is_bracket = character in "{[" or (character == "(" and self._dialect.is_python)
        if is_bracket and is_undecided:
            self._become("set", out)
        if is_bracket:
            self._begin_element(out)
            return self._enter(character, at, out)
        if any(one.startswith(character) for one in self._dialect.quotes):
            after = self._begin_string(text, at, out, "element" if is_undecided else "")
            if after >= 0:
                return after
        return self._read_word(text, at, out)

    def _begin_element(self, out: list[str]) -> None:
        """A value begins: an item, unless it has a key."""
        if self._state == "first":
            self._begin_item(out)

    def _read_word(self, text: str, at: int, out: list[str]) -> int:
        """A value without quotes, once it is clear where it ends; whole numbers as they come."""
        if self._begins_number():
            number = _NUMBER_RUN.match(text, at)
            if number is not None:
                self._begin_element(out)
                out.append(number[0])
                self._state = "digits"
                return number.end()
        run = (_BARE_RUN if self._dialect.is_bare else _WORD_RUN).match(text, at)
        if run is None:
            raise DeviationError(at, _NO_VALUE)
        if run.end() == len(text) and run.end() - at < _MAX_RUN:
            return at
        word = run[0].rstrip()
        if self._open[-1].kind == "?":
            json, self._state = scalar_json(word), "undecided"
            if json is not None:
                self._kept = json
                return run.end()
        else:
            self._begin_element(out)
            json = word_json(word, self._view.types, self._view.strings)
            if json is None and self._dialect.is_bare and run.end() - at < _MAX_RUN:
                json = quoted_json(word)
        if json is None:
            raise DeviationError(at, _NO_VALUE)
        out.append(json)
        self._state = "after"
        return run.end()

    def _begins_number(self) -> bool:
        """Whether digits can only be those of a number."""
        inside = self._open[-1]
        view = inside.view.item(inside.size) if self._state == "first" else self._view
        is_certain = view.types == TYPES or (view.strings == frozenset() and "number" in view.types)
        return is_certain and not self._dialect.is_bare and inside.kind != "?"

    def _read_digits(self, text: str, at: int, out: list[str]) -> int:
        """The rest of a number; a point, an exponent or what stands between digits once it is whole."""
        end = _DIGITS.match(text, at).end()  # type: ignore[union-attr]
        out.append(text[at:end])
        run = _WORD_RUN.match(text, end)
        if run is None:
            self._state = "digits" if end == len(text) else "after"
            return end
        if run.end() == len(text) and run.end() - end < _MAX_RUN:
            return end
        json = number_json(f"1{run[0]}")
        if json is None:
            raise DeviationError(end, _NO_VALUE)
        out.append(json[1:])
        self._state = "after"
        return run.end()

    # --- Strings ---

    def _begin_string(self, text: str, at: int, out: list[str], keeps: str) -> int:
        """Begin a string that is kept as `keeps` says; -1 if a value is none."""
        for quote in self._dialect.quotes:
            if text.startswith(quote, at):
                if not keeps:
                    self._begin_element(out)
                    keeps = "" if self._view.strings != frozenset() else "typed"
                self._quote, self._state, self._keeps = quote, "string", keeps
                self._put("" if keeps else '"', at, out)
                return at + len(quote)
            if begins_with_rest(quote, text, at):
                return at
        if keeps != "key":
            return -1
        raise DeviationError(at, "the arguments have a name that is none")

    def _put(self, json: str, at: int, out: list[str]) -> None:
        """Give or keep a piece of a string; one that is too long to be kept is a string."""
        if not self._keeps:
            out.append(json)
            return
        self._kept += json
        if len(self._kept) > MAX_HELD:
            if self._keeps != "typed":
                raise DeviationError(at, "the arguments have a name that is too long")
            out.append(f'"{self._kept}')
            self._keeps = self._kept = ""

    def _read_string(self, text: str, at: int, out: list[str]) -> int:
        quote = self._quote
        if quote == self._dialect.mark:
            end = text.find(quote, at)
            end = held_from(text, at, quote) if end < 0 else end
        else:
            end = _PLAIN[quote[0]].match(text, at).end()  # type: ignore[union-attr]
        if end > at:
            self._put(escaped_json(text[at:end]), at, out)
        if text.startswith(quote, end):
            return self._end_string(end, out)
        if begins_with_rest(quote, text, end):
            return end
        if text[end] == quote[0]:  # within three quotes
            self._put(escaped_json(quote[0]), end, out)
            return end + 1
        return self._read_escape(text, end, out)

    def _end_string(self, at: int, out: list[str]) -> int:
        kept, self._kept = f'"{self._kept}"', ""
        keeps, self._keeps = self._keeps, ""
        self._state = "after"
        if keeps == "key":
            self._put_key(kept, out)
        elif keeps == "element":
            self._kept, self._state = kept, "undecided"
        elif keeps:
            view = self._view
            out.append(typed_json(json_value(kept), view.types, view.strings, nested_json))
        else:
            out.append('"')
        return at + len(self._quote)

    def _read_escape(self, text: str, at: int, out: list[str]) -> int:
        if _UNFINISHED.match(text, at):
            return at
        found = _ESCAPE.match(text, at)
        if found is None:
            raise DeviationError(at, "a string of the arguments has an escape that is none")
        is_slash = found[1] == "/" and not self._dialect.is_python
        self._put("/" if is_slash else _escape_in_json(found[1], at), at, out)
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
