"""Reads elements within elements, each with its marks (`grammar.structural_tag.elements`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...grammar.structural_tag.arguments import MAX_NAME
from ...grammar.structural_tag.elements import Notation
from ..alphabet import SURROGATES, MarkerAlphabet
from ..events import DeviationError
from ..schemas import ANYTHING, SchemaView
from ..templates import MAX_GAP, PARTIAL, Part, Template
from ..writing import quoted_json
from .dialects import nested_json
from .literals import typed_json
from .marked import MarkedReader
from .parameters import special_in, unescaped
from .reader import MAX_HELD, begins_with_rest, check_depth, held_from, skip_space

_PLAIN = re.compile(f"[^<{SURROGATES}]")
"""What begins no mark."""
_PLACES = re.compile(r"(\{name\}|\{kind\})")


@dataclass(frozen=True, eq=False)
class _Marks:
    """The marks of a notation; `member_end` and `item_end` may contain `{name}`. `sentinel` precedes the `<`
    of all of them, if something does."""

    member: Template
    member_end: str
    item: Template
    item_end: str
    kinds: Mapping[str, str]
    special: Callable[[str], object]
    escapes: tuple[tuple[str, str], ...]
    sentinel: str


class _Open(NamedTuple):
    """An object or a list within which the text is."""

    is_list: bool
    view: SchemaView
    end: str
    size: int = 0


def marks_of_elements(notation: Notation, alphabet: MarkerAlphabet) -> _Marks:
    """The marks of a notation."""
    kinds = {kind: name for name, kind in reversed(tuple(notation.kinds.items()))}
    kinds |= {notation.kinds[name]: name for name in ("string", "object", "array") if name in notation.kinds}
    escapes = tuple((mark, character) for character, mark in reversed(tuple(notation.escapes.items())))
    encode = alphabet.encode
    return _Marks(
        _template(encode(notation.member)),
        encode(notation.member_end),
        _template(encode(notation.item)),
        encode(notation.item_end),
        kinds,
        special_in(encode(notation.item_end)),
        escapes,
        encode(notation.member.partition("<{name}")[0]) if "<{name}>" in notation.member else "",
    )


def _template(mark: str) -> Template:
    """The template of a mark with places for a name and a type."""
    pieces = _PLACES.split(mark)
    parts = []
    for number, piece in enumerate(pieces):
        is_place = piece in ("{name}", "{kind}")
        parts.append(Part("until", pieces[number + 1]) if is_place else Part("text", piece))
    return Template([part for part in parts if part.text])


class ElementsReader(MarkedReader):
    """Reads the members of the arguments, and what is within them.

    State: `_state` may be decide (the type of a value, by what it begins with) or unmarked (a value without
    the mark before it), besides those of every `MarkedReader`.
    """

    def __init__(self, marks: _Marks, view: SchemaView) -> None:
        super().__init__(view)
        self._marks = marks
        self._open: tuple[_Open, ...] = (_Open(False, view, ""),)

    # --- Members and items ---

    def _read_between(self, text: str, at: int, out: list[str]) -> int:
        at = skip_space(text, at)
        if at == len(text):
            return at
        inside = self._open[-1]
        closing = inside.end
        if closing and text.startswith(closing, at):
            self._close(out)
            return at + len(closing)
        end, name, kind = (self._marks.item if inside.is_list else self._marks.member).match(text, at)
        may_close = begins_with_rest(closing, text, at)
        is_mark = self._is_end_mark(text, at)
        if end >= 0 and not is_mark:
            self._begin(name, kind, at, out)
            return end
        if may_close or (end == PARTIAL and not is_mark):
            return at
        sentinel = self._marks.sentinel
        if sentinel and not inside.is_list and text.startswith(sentinel, at):
            after = at + len(sentinel)
            if _PLAIN.match(text, after):
                self._state = "unmarked"
                return after
        if len(self._open) > 1:
            raise DeviationError(at, "an element within an argument does not end")
        out.append("}")
        self.is_done = True
        return at

    def _read_unmarked(self, text: str, at: int, out: list[str]) -> int:
        """A member without the mark before its value, as MiniMax M3 writes first ones: the mark after it has
        its name."""
        end_mark = f"{self._marks.sentinel}</"
        found = text.find(end_mark, at)
        end = held_from(text, at, end_mark) if found < 0 else found
        self._held += text[at:end]
        if len(self._held) > MAX_HELD:
            raise DeviationError(end, "an argument has no name before its value")
        if found < 0:
            return end
        begin = end + len(end_mark)
        name, mark, _ = text[begin : begin + MAX_NAME].partition(">")
        if not mark and len(name) < MAX_NAME:
            return end
        inside = self._open[-1]
        if not mark or (inside.view is not ANYTHING and name not in inside.view.names):
            raise DeviationError(end, "an argument has no name")
        view, held, self._held = inside.view.member(name), self._held, ""
        self._begin_member(name, out)
        out.append(typed_json(held, view.types, view.strings, nested_json))
        self._state = "between"
        return begin + len(name) + 1

    def _begin_member(self, name: str, out: list[str]) -> None:
        inside = self._open[-1]
        out.append(", " if inside.size else "")
        if not inside.is_list:
            out.append(f"{quoted_json(name)}: ")
        self._open = (*self._open[:-1], inside._replace(size=inside.view.next_index(inside.size)))

    def _is_end_mark(self, text: str, at: int) -> bool:
        """Whether an opening mark in the text is that of an end: `</`."""
        first = self._marks.member.parts[0].text
        return first.endswith("<") and text.startswith(first + "/", at)

    def _begin(self, name: str, kind: str, at: int, out: list[str]) -> None:
        inside, marks = self._open[-1], self._marks
        if inside.is_list:
            kind, end, view = name, marks.item_end, inside.view.item(inside.size)
        else:
            written, name = name, unescaped(name, marks.escapes)
            end, view = marks.member_end.replace("{name}", written), inside.view.member(name)
        self._begin_member(name, out)
        self._closing, self._value_view = end, view
        if not marks.kinds:
            self._state = "decide"
        elif kind not in marks.kinds:
            raise DeviationError(at, "a value is of a type that its style lacks")
        else:
            self._begin_typed(marks.kinds[kind], at, out)

    def _begin_typed(self, kind: str, at: int, out: list[str]) -> None:
        if kind in ("object", "array"):
            check_depth(len(self._open), at)
            out.append("[" if kind == "array" else "{")
            self._open += (_Open(kind == "array", self._value_view, self._closing),)
            self._state = "between"
        else:
            self._begin_value(
                self._value_view, self._closing, kind == "string" if self._marks.kinds else None
            )

    def _close(self, out: list[str]) -> None:
        out.append("]" if self._open[-1].is_list else "}")
        self._open = self._open[:-1]

    def _read_decide(self, text: str, at: int, out: list[str]) -> int:
        """The type of a value without one in its mark: elements begin an object or a list."""
        types = self._value_view.types
        if not types & {"object", "array"}:
            self._begin_typed("text", at, out)
            return at
        after, first = skip_space(text, at), self._marks.member.parts[0].text
        is_element = after - at <= MAX_GAP and text.startswith(first, after)
        if after - at <= MAX_GAP and (after == len(text) or begins_with_rest(first, text, after)):
            return at
        if is_element and text.startswith(self._closing, after):
            kind = "text" if "string" in types else "array" if "array" in types else "object"
        elif is_element and begins_with_rest(self._closing, text, after):
            return at
        elif is_element and not text.startswith(first + "/", after):
            is_item, item = text.startswith(self._marks.item.parts[0].text, after), "array" in types
            if item and not is_item and begins_with_rest(self._marks.item.parts[0].text, text, after):
                return at
            kind = "array" if is_item and item else "object"
        else:
            kind = "text"
        self._begin_typed(kind, at, out)
        return at


ElementsReader.readers = {
    **MarkedReader.readers,
    "between": ElementsReader._read_between,
    "decide": ElementsReader._read_decide,
    "unmarked": ElementsReader._read_unmarked,
}
