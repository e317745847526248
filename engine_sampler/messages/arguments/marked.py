"""Reads values between marks, whatever the marks are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ..events import DeviationError
from ..schemas import TYPES, SchemaView
from ..templates import FAILED, PARTIAL, after_space
from ..writing import escaped_json
from .dialects import LITERALS, DialectReader, nested_json
from .literals import NULLS, begins_json, typed_json
from .reader import MAX_HELD, ArgumentsReader, begins_with_rest, held_from, skip_space

if TYPE_CHECKING:
    pass

_STRING, _NO_STRINGS = frozenset(("string",)), frozenset[str]()


class MarkedReader(ArgumentsReader):
    """A reader of marks and of the values between them, which reads on as its state says.

    State: `_state` is start, between (the marks), whole (JSON in place of all marks), text (a string), held
    (a value whose type its end decides), json (an object or a list), or closing (what follows that).

    readers    by state: (reader, text, at, out) → where it ends.
    is_padded  whether line breaks around a value are none of it, if there is one before it
    quotes     what begins a text in quotes, and what then ends the value; ("", "") if there are none
    """

    readers: ClassVar[Mapping[str, Callable[..., int]]]
    _marks: Any
    is_padded = False
    quotes = ("", "")

    def __init__(self, view: SchemaView) -> None:
        super().__init__()
        self._state, self._held, self._closing = "start", "", ""
        self._view = self._value_view = view
        self._types, self._strings = view.types, view.strings
        self._at_begin = self._cuts_end = False

    @property
    def held(self) -> str:
        return self._held + (self._inner.held if self._inner else "")

    @property
    def special(self) -> Callable[[str], object] | None:
        return self._marks.special if self._state == "text" and not self._at_begin else None

    def read(self, text: str, at: int, out: list[str]) -> int:
        before: tuple[int, str] | None = None
        while before != (at, self._state) and not self.is_done:
            before = at, self._state
            at = self.readers[self._state](self, text, at, out)
        return at

    def _read_start(self, text: str, at: int, out: list[str]) -> int:
        """Marks, or one object in place of them all."""
        at = skip_space(text, at)
        if text.startswith("{", at):
            self._state, self._inner = "whole", DialectReader(LITERALS, self._view)
        elif at < len(text):
            out.append("{")
            self._state = "between"
        return at

    def _read_whole(self, text: str, at: int, out: list[str]) -> int:
        at = self._inner.read(text, at, out)
        self.is_done = self._inner.is_done
        return at

    # --- Values ---

    def _begin_value(self, view: SchemaView, closing: str, is_string: bool | None = None) -> None:
        """A value up to the mark `closing`; `is_string` if its marks say whether it is a string. Where the
        schema says otherwise, that holds."""
        types, strings = view.types, view.strings
        if is_string and "string" in types:
            types, strings = _STRING, None
        elif is_string is False and types != _STRING:
            types, strings = types - _STRING, _NO_STRINGS
        self._value_view, self._types, self._strings = view, types, strings
        self._closing = closing
        self._at_begin, self._cuts_end = True, False
        self._state = "text" if strings is None else "held"

    def _value_end(self, text: str, at: int) -> tuple[int, int]:
        """Where the value ends, and where what follows it begins: -1 if that is not there yet, and the value
        goes on at least up to the other place."""
        found = text.find(self._closing, at)
        if found >= 0:
            return found, found + len(self._closing)
        return held_from(text, at, self._closing), -1

    def _read_text(self, text: str, at: int, out: list[str]) -> int:
        if self._at_begin:
            inside = self._in_quotes(text, at)
            if inside == PARTIAL:
                return at
            null = self._null_end(text, at)
            if null == PARTIAL or (at == len(text) and self.is_padded):
                return at
            if null >= 0:
                out.append("null")
                self._state = "between"
                return null
            at = self._begin_text(text, max(at, inside), out)
        end, after = self._value_end(text, at)
        if self._cuts_end and end > at and text[end - 1] == "\n":
            end -= 1
        if end > at:
            out.append(escaped_json(text[at:end]))
        if after < 0:
            return end
        out.append('"')
        self._state = "between"
        return after

    def _begin_text(self, text: str, at: int, out: list[str]) -> int:
        out.append('"')
        self._at_begin = False
        self._cuts_end = self.is_padded and text.startswith("\n", at)
        return at + self._cuts_end

    def _in_quotes(self, text: str, at: int) -> int:
        """Where a text in quotes begins that begins at a position."""
        begin, closing = self.quotes
        if not begin or not text.startswith(begin, at):
            return PARTIAL if begin and begins_with_rest(begin, text, at) else FAILED
        self._closing = closing
        return at + len(begin)

    def _null_end(self, text: str, at: int) -> int:
        """Where null in place of a string ends with its mark, if the schema names both types."""
        if "null" not in self._types or self._types == TYPES:
            return FAILED
        begin = after_space(text, at)
        found = [one for one in NULLS if text[begin : begin + len(one)].lower() == one]
        if not found:
            rest = text[begin : begin + 4].lower()
            is_partial = begin + len(rest) == len(text) and any(one.startswith(rest) for one in NULLS)
            return PARTIAL if is_partial else FAILED
        end = after_space(text, begin + len(found[0]))
        if text.startswith(self._closing, end):
            return end + len(self._closing)
        return PARTIAL if begins_with_rest(self._closing, text, end) else FAILED

    def _read_held(self, text: str, at: int, out: list[str]) -> int:
        if self._at_begin:
            inside = self._in_quotes(text, at)
            if inside == PARTIAL:
                return at
            at, self._at_begin = max(at, inside), False
        if not self._held and not self._strings:
            begin = skip_space(text, at)
            if begin == len(text):
                return begin
            is_json = text[begin] in "{[" and begins_json(text, begin)
            if is_json is None:
                return begin
            if is_json:
                self._state, self._inner = "json", DialectReader(LITERALS, self._value_view)
                return begin
        end, after = self._value_end(text, at)
        self._held += text[at:end]
        if len(self._held) > MAX_HELD:
            held, self._held, self._state = self._held, "", "text"
            out.append(escaped_json(held[self._begin_text(held, 0, out) :]))
            return end
        if after < 0:
            return end
        held, self._held, self._state = self._held, "", "between"
        if self.is_padded and held.startswith("\n"):
            held = held[1:].removesuffix("\n")
        out.append(
            typed_json(held, self._types, self._strings, lambda nested: nested_json(nested, self._value_view))
        )
        return after

    def _read_json(self, text: str, at: int, out: list[str]) -> int:
        at = self._inner.read(text, at, out)
        if self._inner.is_done:
            self._state, self._inner = "closing", None
        return at

    def _read_closing(self, text: str, at: int, out: list[str]) -> int:
        at = skip_space(text, at)
        if text.startswith(self._closing, at):
            self._state = "between"
            return at + len(self._closing)
        if not begins_with_rest(self._closing, text, at):
            raise DeviationError(at, "an argument does not end after its value")
        return at


MarkedReader.readers = {
    "start": MarkedReader._read_start,
    "whole": MarkedReader._read_whole,
    "text": MarkedReader._read_text,
    "held": MarkedReader._read_held,
    "json": MarkedReader._read_json,
    "closing": MarkedReader._read_closing,
}
