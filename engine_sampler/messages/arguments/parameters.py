"""Reads parameters, each with its name and its value between marks (`grammar.structural_tag.parameters`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...grammar.structural_tag.parameters import Style
from ..alphabet import MarkerAlphabet
from ..events import DeviationError
from ..schemas import ANYTHING, SchemaView
from ..templates import FAILED, PARTIAL, Part, Template, literal
from ..writing import quoted_json
from .marked import MarkedReader
from .reader import NOT_PLAIN, begins_with_rest, held_from, skip_space

MAX_NAMES = 256
"""So many names of parameters are remembered: what may end a value whose mark is missing is none of them."""

_NAME = re.compile(r"[\w.$-]{1,256}")


@dataclass(frozen=True, eq=False)
class _Marks:
    """The marks of a style: `opening` up to the type or the value, what says whether a value is a string,
    `value`, `closing`; and what begins and ends a text in quotes, ("", "") if there are none."""

    opening: Template
    types: tuple[tuple[bool, Template], ...]
    value: Template
    closing: str
    special: Callable[[str], object]
    escapes: tuple[tuple[str, str], ...]
    is_padded: bool
    quotes: tuple[str, str]


def marks_of_parameters(style: Style, alphabet: MarkerAlphabet) -> _Marks:
    """The marks of a style."""
    before, after = alphabet.encode(style.before), alphabet.encode(style.after)
    opening = Template([Part("text", before), Part("until", after), Part("text", after)])
    strings: dict[str, bool] = {}
    for kind, mark in style.types.items():
        strings.setdefault(mark, kind == "string")
    types = tuple((kind, Template([Part("text", alphabet.encode(mark))])) for mark, kind in strings.items())
    value = Template([Part("space"), *literal(style.value, alphabet).parts]) if style.value else Template(())
    escapes = tuple((mark, character) for character, mark in reversed(tuple(style.escapes.items())))
    closing = alphabet.encode(style.closing)
    quotes = (style.quotes[0], style.quotes[1] + closing) if style.quotes else ("", "")
    special = special_in(closing, before, quotes[1])
    return _Marks(opening, types, value, closing, special, escapes, style.is_padded, quotes)


def special_in(*marks: str) -> Callable[[str], object]:
    """Finds what does not just go on with a text in which these marks end it."""
    return re.compile(f"[{NOT_PLAIN}{re.escape(''.join(mark[:1] for mark in marks))}]").search


def unescaped(name: str, escapes: tuple[tuple[str, str], ...]) -> str:
    """A name without the escapes of its style."""
    for mark, character in escapes:
        name = name.replace(mark, character)
    return name


class ParametersReader(MarkedReader):
    """Reads the parameters of a call up to what is none."""

    def __init__(self, marks: _Marks, view: SchemaView) -> None:
        super().__init__(view)
        self._marks, self.is_padded, self.quotes = marks, marks.is_padded, marks.quotes
        self._names: tuple[str, ...] = ()

    def _read_between(self, text: str, at: int, out: list[str]) -> int:
        at = skip_space(text, at)
        if at == len(text):
            return at
        marks = self._marks
        if text.startswith(marks.closing, at):  # once more
            return at + len(marks.closing)
        end, name, _ = marks.opening.match(text, at)
        is_string: bool | None = None
        if end >= 0 and marks.types:
            found = [(kind, template.match(text, end).end) for kind, template in marks.types]
            end = max(one for _, one in found)
            is_string = next((kind for kind, one in found if one == end), None)
            if end == FAILED:
                raise DeviationError(at, "a parameter has no type of its style")
        if end >= 0 and marks.value:
            end = marks.value.match(text, end).end
            if end == FAILED:
                raise DeviationError(at, "a parameter has no value")
        if end == PARTIAL or begins_with_rest(marks.closing, text, at):
            return at
        if end == FAILED:
            out.append("}")
            self.is_done = True
            return at
        self._begin(unescaped(name, marks.escapes), is_string, out)
        return end

    def _begin(self, name: str, is_string: bool | None, out: list[str]) -> None:
        out.append(f"{', ' if self._names else ''}{quoted_json(name)}: ")
        if len(self._names) < MAX_NAMES and name not in self._names:
            self._names += (name,)
        self._begin_value(self._view.member(name), self._marks.closing, is_string)

    def _value_end(self, text: str, at: int) -> tuple[int, int]:
        """A value ends before another parameter, too, if its own mark is missing there."""
        end, after = super()._value_end(text, at)
        if self._closing != self._marks.closing:
            return end, after
        before = self._marks.opening.parts[0].text
        begin = text.find(before, at, end)
        while begin >= 0:
            found = self._marks.opening.match(text, begin)
            if found.end >= 0 and self._may_follow(unescaped(found.name, self._marks.escapes)):
                return begin, begin
            if found.end == PARTIAL and after < 0:
                return begin, -1
            begin = text.find(before, begin + 1, end)
        return (end, after) if after >= 0 else (min(end, held_from(text, at, before)), -1)

    def _may_follow(self, name: str) -> bool:
        if len(self._names) == MAX_NAMES or name in self._names or not _NAME.fullmatch(name):
            return False
        return self._view is ANYTHING or name in self._view.names


ParametersReader.readers = {**MarkedReader.readers, "between": ParametersReader._read_between}
