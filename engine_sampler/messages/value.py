"""JSON text, read piece by piece, as a value that grows."""

from __future__ import annotations

import re
from typing import Any

from .writing import json_value

_RUN = re.compile(r'[^"\\]*')
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[-+.\w]*")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_HIGH = re.compile(r"\\u[dD][89abAB]..")
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_NOTHING = object()
MAX_SCALAR = 16_384
MAX_DEPTH = 256


class ValueReader:
    """Reads one JSON value from pieces of text.

    Raises ValueError for what is not JSON, in all later calls too.
    """

    def __init__(self) -> None:
        self._open: list[Any] = []
        self._path: list[str] = []
        self._keys: list[Any] = []
        self._top: Any = _NOTHING
        self._rest = ""
        self._state = "value"
        self._pieces: list[str] = []
        self._is_key = False
        self._error: str | None = None

    def feed(self, text: str) -> list[tuple[str, str]]:
        """What the value goes on with: for each part that grows, its JSON pointer, and the characters of a
        string, or the JSON of a number, true, false or null."""
        if self._error is not None:
            raise ValueError(self._error)
        grown: list[tuple[str, str]] = []
        text, at = self._rest + text, 0
        try:
            before = (-1, "")
            while at < len(text) and before != (at, self._state):
                before = at, self._state
                at = self._string(text, at, grown) if self._state == "string" else self._step(text, at, grown)
        except ValueError as error:
            self._error = str(error)
            raise
        self._rest = text[at:]
        return grown

    @property
    def value(self) -> Any:
        """The value so far; None if there is none yet. Its objects and lists are those that grow."""
        if self._error is not None:
            raise ValueError(self._error)
        if self._state == "string" and not self._is_key:
            self._pieces = ["".join(self._pieces)]
            self._put(self._pieces[0])
        if self._top is _NOTHING:
            try:
                return json_value(self._rest)
            except ValueError:
                return None
        return self._top

    def _string(self, text: str, at: int, grown: list[tuple[str, str]]) -> int:
        end = _RUN.match(text, at).end()  # type: ignore[union-attr]
        if end > at:
            self._grow(text[at:end], grown)
        if end == len(text):
            return end
        if text[end] == '"':
            self._end_string(grown)
            return end + 1
        found = _PAIR.match(text, end)
        if found is None:
            if (
                _HIGH.match(text, end)
                and len(text) - end < 12
                and "\\u"[: len(text) - end - 6] == text[end + 6 : end + 8]
            ):
                return end
            found = _ESCAPE.match(text, end)
        if found is None:
            if len(text) - end < 6 and text[end + 1 : end + 2] in ("", "u"):
                return end
            raise ValueError("the text is not JSON: a string has an escape that is none")
        self._grow(json_value(f'"{found[0]}"'), grown)
        return found.end()

    def _grow(self, text: str, grown: list[tuple[str, str]]) -> None:
        self._pieces.append(text)
        if not self._is_key:
            grown.append((self._pointer(), text))

    def _end_string(self, grown: list[tuple[str, str]]) -> None:
        text, self._pieces = "".join(self._pieces), []
        if self._is_key:
            self._keys[-1] = text
            self._path[-1] = "/" + text.replace("~", "~0").replace("/", "~1")
            self._state = "colon"
        else:
            if not text:
                grown.append((self._pointer(), ""))
            self._put(text)
            self._state = "after"

    def _step(self, text: str, at: int, grown: list[tuple[str, str]]) -> int:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text):
            return at
        character, state = text[at], self._state
        if state == "after" and not self._open:
            raise ValueError("the text is not JSON: something follows the value")
        if (character == "}" and state in ("after", "first key")) or (
            character == "]" and state in ("after", "first")
        ):
            self._close(character)
        elif character == "," and state == "after":
            self._next()
        elif character == '"' and state in ("key", "first key"):
            self._state, self._is_key = "string", True
        elif character == ":" and state == "colon":
            self._state = "value"
        elif state in ("value", "first"):
            return self._value(text, at, grown)
        else:
            raise ValueError("the text is not JSON")
        return at + 1

    def _value(self, text: str, at: int, grown: list[tuple[str, str]]) -> int:
        character = text[at]
        if character in "{[":
            self._enter(character)
        elif character == '"':
            self._state, self._is_key = "string", False
        else:
            end = _SCALAR.match(text, at).end()  # type: ignore[union-attr]
            if end == at or end - at > MAX_SCALAR:
                raise ValueError("the text is not JSON: a value is none")
            if end == len(text):
                return at
            self._put(_scalar(text[at:end]))
            grown.append((self._pointer(), text[at:end]))
            self._state = "after"
            return end
        return at + 1

    # --- Objects and lists ---

    def _enter(self, character: str) -> None:
        if len(self._open) == MAX_DEPTH:
            raise ValueError(f"the text is nested more than {MAX_DEPTH} levels deep")
        inside: Any = {} if character == "{" else []
        self._put(inside)
        self._open.append(inside)
        self._keys.append(0 if character == "[" else "")
        self._path.append("/0" if character == "[" else "/")
        self._state = "first" if character == "[" else "first key"

    def _next(self) -> None:
        if isinstance(self._open[-1], dict):
            self._state = "key"
        else:
            self._keys[-1] += 1
            self._path[-1] = f"/{self._keys[-1]}"
            self._state = "value"

    def _close(self, character: str) -> None:
        if isinstance(self._open[-1], dict) is not (character == "}"):
            raise ValueError("the text is not JSON: brackets do not match")
        self._open.pop()
        self._keys.pop()
        self._path.pop()
        self._state = "after"

    def _put(self, value: Any) -> None:
        if not self._open:
            self._top = value
        elif isinstance(self._open[-1], dict) or len(self._open[-1]) > self._keys[-1]:
            self._open[-1][self._keys[-1]] = value
        else:
            self._open[-1].append(value)

    def _pointer(self) -> str:
        return "".join(self._path)


def _scalar(text: str) -> Any:
    try:
        return json_value(text)
    except ValueError:
        raise ValueError("the text is not JSON: a value is none") from None
