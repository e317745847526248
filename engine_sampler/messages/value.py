"""JSON text, read piece by piece, as a value that grows."""

from __future__ import annotations

import re
from typing import Any

from .arguments.reader import skip_space
from .writing import NUMBER, json_value

_RUN = re.compile(r'[^"\\]*')
_SCALAR = re.compile(r"[-+.\w]+")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_HIGH = re.compile(r"\\u[dD][89abAB]..")
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_NOTHING = object()
_WORDS = ("true", "false", "null")
MAX_SCALAR = 16_384
MAX_DEPTH = 256
MAX_POINTER = 512
"""Maximum length of a pointer: each part that grows has one."""


class ValueReader:
    """Reads one JSON value from pieces of text.

    parts   whether `feed` says what the value goes on with
    values  whether `value` is kept; a number that Python cannot represent is none then

    Raises ValueError for what is not JSON, in all later calls too. The same holds for values nested more than
    256 levels deep, numbers of more than 16,384 characters, and, with `parts`, pointers of more than 512.
    """

    def __init__(self, *, parts: bool = True, values: bool = True) -> None:
        self._has_parts, self._has_values = parts, values
        self._open: list[Any] = []
        self._path = [""]
        self._keys: list[Any] = []
        self._top: Any = _NOTHING
        self._rest = ""
        self._state = "value"
        self._pieces: list[str] = []
        self._length = 0
        self._is_key = False
        self._error: str | None = None

    def feed(self, text: str) -> list[tuple[str, str]]:
        """What the value goes on with: for each part that grows, its JSON pointer, and the characters of a
        string, or the JSON of a number, true, false or null."""
        grown: list[tuple[str, str]] = []
        self.feed_into(text, grown)
        return grown

    def feed_into(self, text: str, grown: list[tuple[str, str]]) -> None:
        """`feed`, which appends what it says, before it raises an error too."""
        if self._error is not None:
            raise ValueError(self._error)
        text, at = self._rest + text, 0
        try:
            before = (-1, "")
            while at < len(text) and before != (at, self._state):
                before = at, self._state
                read = _RUNS.get(self._state, ValueReader._step)
                at = read(self, text, at, grown)
        except ValueError as error:
            self._error = str(error)
            raise
        self._rest = text[at:]

    def copy(self) -> ValueReader:
        """A reader in the same state, without values, which goes on independently. Takes time in proportion
        to the depth of the place alone."""
        new = object.__new__(ValueReader)
        new.__dict__.update(self.__dict__)
        new._open, new._path = self._open.copy(), self._path.copy()
        new._keys, new._pieces = self._keys.copy(), self._pieces.copy()
        new._has_values = False
        return new

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
                return json_value("".join(self._pieces))
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
        escape = _PAIR.match(text, end)
        if escape is None:
            if (
                _HIGH.match(text, end)
                and len(text) - end < 12
                and "\\u"[: len(text) - end - 6] == text[end + 6 : end + 8]
            ):
                return end
            escape = _ESCAPE.match(text, end)
        if escape is None:
            if len(text) - end < 6 and text[end + 1 : end + 2] in ("", "u"):
                return end
            raise ValueError("the text is not JSON: a string has an escape that is none")
        self._grow(json_value(f'"{escape[0]}"'), grown)
        return escape.end()

    def _grow(self, text: str, grown: list[tuple[str, str]]) -> None:
        self._length += len(text)
        if self._is_key or self._has_values:
            self._pieces.append(text)
        if self._is_key:
            self._check_pointer(self._length)
        else:
            self._say(text, grown)

    def _end_string(self, grown: list[tuple[str, str]]) -> None:
        text, self._pieces = "".join(self._pieces), []
        if self._is_key:
            self._keys[-1] = text
            self._lead_to(text.replace("~", "~0").replace("/", "~1"))
            self._state = "colon"
        else:
            if not self._length:
                self._say("", grown)
            self._put(text)
            self._state = "after"
        self._length = 0

    def _step(self, text: str, at: int, grown: list[tuple[str, str]]) -> int:
        at = skip_space(text, at)
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
            return self._value(text, at)
        else:
            raise ValueError("the text is not JSON")
        return at + 1

    def _value(self, text: str, at: int) -> int:
        character = text[at]
        if character in "{[":
            self._enter(character)
        elif character == '"':
            self._state, self._is_key = "string", False
        else:
            if not _SCALAR.match(text, at):
                raise ValueError(_NO_VALUE)
            self._state = "scalar"
            return at
        return at + 1

    def _scalar(self, text: str, at: int, grown: list[tuple[str, str]]) -> int:
        """A number or a word, which ends before another character."""
        found = _SCALAR.match(text, at)
        end = found.end() if found else at
        self._length += end - at
        if self._length > MAX_SCALAR:
            raise ValueError(f"a number has more than {MAX_SCALAR:,} characters")
        self._pieces.append(text[at:end])
        if end < len(text):
            whole, self._pieces, self._length = "".join(self._pieces), [], 0
            if self._has_values:
                self._put(_value_of(whole))
            elif whole not in _WORDS and not NUMBER.fullmatch(whole):
                raise ValueError(_NO_VALUE)
            self._say(whole, grown)
            self._state = "after"
        return end

    # --- Objects and lists ---

    def _enter(self, character: str) -> None:
        if len(self._open) == MAX_DEPTH:
            raise ValueError(f"the text is nested more than {MAX_DEPTH} levels deep")
        inside: Any = {} if character == "{" else []
        self._put(inside)
        self._open.append(inside)
        self._keys.append(0 if character == "[" else "")
        self._path.append("")
        self._lead_to("0" if character == "[" else "")
        self._state = "first" if character == "[" else "first key"

    def _next(self) -> None:
        if isinstance(self._open[-1], dict):
            self._state = "key"
        else:
            self._keys[-1] += 1
            self._lead_to(str(self._keys[-1]))
            self._state = "value"

    def _close(self, character: str) -> None:
        if isinstance(self._open[-1], dict) is not (character == "}"):
            raise ValueError("the text is not JSON: brackets do not match")
        self._open.pop()
        self._keys.pop()
        self._path.pop()
        self._state = "after"

    def _put(self, value: Any) -> None:
        if not self._has_values:
            return
        if not self._open:
            self._top = value
        elif isinstance(self._open[-1], dict) or len(self._open[-1]) > self._keys[-1]:
            self._open[-1][self._keys[-1]] = value
        else:
            self._open[-1].append(value)

    # --- What is said ---

    def _say(self, text: str, grown: list[tuple[str, str]]) -> None:
        if self._has_parts:
            grown.append((self._path[-1], text))

    def _lead_to(self, step: str) -> None:
        """The place is now this part of what is open; all that is said of it has one pointer."""
        if self._has_parts:
            self._check_pointer(len(self._path[-2]) + 1 + len(step))
            self._path[-1] = f"{self._path[-2]}/{step}"

    def _check_pointer(self, length: int) -> None:
        if self._has_parts and length > MAX_POINTER:
            raise ValueError(f"the pointer of a part has more than {MAX_POINTER} characters")


_NO_VALUE = "the text is not JSON: a value is none"


def _value_of(text: str) -> Any:
    try:
        return json_value(text)
    except ValueError:
        raise ValueError(_NO_VALUE) from None


_RUNS = {"string": ValueReader._string, "scalar": ValueReader._scalar}
"""What reads on where characters of one kind follow each other."""
