"""Reads parameters, each with its name and its value between marks (`grammar.structural_tag.parameters`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...grammar.structural_tag.parameters import Style
from ..alphabet import MarkerAlphabet
from ..events import DeviationError
from ..schemas import SchemaView
from ..templates import FAILED, PARTIAL, Part, Template, literal
from ..writing import escaped_json, quoted_json
from .json_text import JsonReader
from .reader import NOT_PLAIN, UNTYPED, ReaderInStates, begins_with_rest, held_from, skip_space, typed_json

MAX_PARAMETERS = 256
"""Maximum number of parameters in a call."""


@dataclass(frozen=True, eq=False)
class _Marks:
    """The marks of a style: `opening` up to the type or the value, what says a type, `value`, `closing`; and
    what begins and ends a text in quotes, ("", "") if there are none."""

    opening: Template
    types: tuple[tuple[str, Template], ...]
    value: Template
    closing: str
    special: Callable[[str], object]
    escapes: tuple[tuple[str, str], ...]
    is_padded: bool
    quotes: tuple[str, str]


def marks_of_parameters(style: Style, alphabet: MarkerAlphabet, is_padded: bool) -> _Marks:
    """The marks of a style; `is_padded`: a line break before and after a value is not part of it."""
    before, after = alphabet.encode(style.before), alphabet.encode(style.after)
    opening = Template([Part("text", before), Part("until", after), Part("text", after)])
    strings: dict[str, str] = {}
    for kind, mark in style.types.items():
        strings.setdefault(mark, "string" if kind == "string" else "json")
    types = tuple((kind, Template([Part("text", alphabet.encode(mark))])) for mark, kind in strings.items())
    value = Template([Part("space"), *literal(style.value, alphabet).parts]) if style.value else Template(())
    escapes = tuple((mark, character) for character, mark in reversed(tuple(style.escapes.items())))
    closing = alphabet.encode(style.closing)
    quotes = (style.quotes[0], style.quotes[1] + closing) if style.quotes else ("", "")
    return _Marks(opening, types, value, closing, special_in(closing, quotes[1]), escapes, is_padded, quotes)


def special_in(*closings: str) -> Callable[[str], object]:
    """Finds what does not just go on with a text that ends with one of `closings`."""
    first = "".join(re.escape(closing[0]) for closing in closings if closing)
    return re.compile(f"[{NOT_PLAIN}{first}]").search


def unescaped(name: str, escapes: tuple[tuple[str, str], ...]) -> str:
    """A name without the escapes of its style."""
    for mark, character in escapes:
        name = name.replace(mark, character)
    return name


class ParametersReader(ReaderInStates):
    """Reads the parameters of a call up to what is none.

    State: `_state` is between (parameters), text (a string), held (a value whose type its end decides),
    json (an object or a list) or closing.
    """

    def __init__(self, marks: _Marks, view: SchemaView) -> None:
        super().__init__()
        self._marks, self._view = marks, view
        self._names: tuple[str, ...] = ()
        self._value_view = view
        self._at_begin = False
        self._closing = marks.closing

    @property
    def special(self) -> Callable[[str], object] | None:
        return self._marks.special if self._state == "text" and not self._at_begin else None

    def _read_between(self, text: str, at: int, out: list[str]) -> int:
        at = skip_space(text, at)
        if at == len(text):
            return at
        marks = self._marks
        end, name, _ = marks.opening.match(text, at)
        kind = ""
        if end >= 0 and marks.types:
            found = [(kind, template.match(text, end).end) for kind, template in marks.types]
            end = max(one for _, one in found)
            kind = next((kind for kind, one in found if one == end), "")
            if end == FAILED:
                raise DeviationError(at, "a parameter has no type of its style")
        if end >= 0 and marks.value:
            end = marks.value.match(text, end).end
            if end == FAILED:
                raise DeviationError(at, "a parameter has no value")
        if end == PARTIAL:
            return at
        if end == FAILED:
            out.append("}")
            self.is_done = True
            return at
        self._begin(unescaped(name, marks.escapes), kind, at, out)
        return end

    def _begin(self, name: str, kind: str, at: int, out: list[str]) -> None:
        if name in self._names:
            raise DeviationError(at, "a parameter comes twice")
        if len(self._names) == MAX_PARAMETERS:
            raise DeviationError(at, f"a call has more than {MAX_PARAMETERS} parameters")
        out.append(f"{', ' if self._names else ''}{quoted_json(name)}: ")
        self._names += (name,)
        self._value_view = self._view.member(name)
        self._at_begin, self._closing = True, self._marks.closing
        is_text = kind == "string" or (not kind and self._value_view.is_text)
        self._state = "text" if is_text else "held"
        if is_text:
            out.append('"')

    def _read_text(self, text: str, at: int, out: list[str]) -> int:
        is_padded = self._marks.is_padded
        if self._at_begin and is_padded:
            if at == len(text):
                return at
            at += text[at] == "\n"
        quote, quote_end = self._marks.quotes
        if self._at_begin and quote:
            if begins_with_rest(quote, text, at):
                return at
            if text.startswith(quote, at):
                at, self._closing = at + len(quote), quote_end
        self._at_begin = False
        closing = self._closing
        found = text.find(closing, at)
        if found >= 0:
            end = found - (is_padded and found > at and text[found - 1] == "\n")
            out.append(escaped_json(text[at:end]) + '"')
            self._state = "between"
            return found + len(closing)
        end = held_from(text, at, closing)
        if is_padded and end > at and text[end - 1] == "\n":
            end -= 1
        if end > at:
            out.append(escaped_json(text[at:end]))
        return end

    def _read_held(self, text: str, at: int, out: list[str]) -> int:
        if not self._held and (not self._value_view.strings or self._marks.types):
            at = skip_space(text, at)
            if at < len(text) and text[at] in "{[":
                self._state, self._inner = "json", JsonReader("{[")
                return at
        at, is_whole = self._hold(text, at, self._marks.closing)
        if is_whole:
            self._put_held(out, self._typed(self._held))
        return at

    def _typed(self, text: str) -> str:
        if self._marks.is_padded:
            text = text.removeprefix("\n").removesuffix("\n")
        quote, quote_end = self._marks.quotes
        quote_end = quote_end.removesuffix(self._marks.closing)
        if quote and text.startswith(quote) and text.endswith(quote_end):
            text = text[len(quote) : len(text) - len(quote_end)]
        return typed_json(text, UNTYPED if self._marks.types else self._value_view)

    def _read_closing(self, text: str, at: int, out: list[str]) -> int:
        return self._read_mark(text, at, self._marks.closing, "a parameter")


ParametersReader.readers = {
    "between": ParametersReader._read_between,
    "text": ParametersReader._read_text,
    "held": ParametersReader._read_held,
    "json": ParametersReader._read_json,
    "closing": ParametersReader._read_closing,
}
