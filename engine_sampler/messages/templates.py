"""Strings of a definition, with places for names in them, as they are found in a growing text."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import takewhile
from string import ascii_letters, digits
from typing import NamedTuple, Protocol

from ..grammar.structural_tag.marks import split_marks
from .alphabet import MarkerAlphabet

PARTIAL, FAILED = -1, -2
"""In place of where a match ends: more text may make it one; or none does."""

MAX_NAME = 256
MAX_FREE_NAME = 1024
"""Maximum length of the name of a parameter."""

MAX_MARK = 4_096
"""Maximum length of a mark that a client writes: as much is held back where it might begin."""

MAX_GAP = 256
"""Maximum length of the white space within a beginning or an end. Before an end, there may be more."""

_SPACE = re.compile(rf"[ \t\r\n]{{0,{MAX_GAP}}}")
_NAME = re.compile(rf"[\w.:/-]{{1,{MAX_NAME + 1}}}")
_NAME_CHARACTERS = frozenset(f"{ascii_letters}{digits}_.:/-")
"""With which the name of a function is found where an answer may begin with one."""
_ID = re.compile(rf"[\w.:/-]{{0,{MAX_NAME + 1}}}")
_PIECES = re.compile(r"\s+|[{}\[\],:]|[^\s{}\[\],:]+")
_RUNS = re.compile(r"\s+|\S+")
_PLACEHOLDERS = re.compile(r"((?:functions\.)?\{name\}:\{id\}|\{name\}|\{id\})")


class Found(NamedTuple):
    """Where a match ends, or PARTIAL or FAILED, and the names in it."""

    end: int
    name: str = ""
    id: str = ""


class WrappedFound(Found):
    """The beginning of a call that is an object within another one."""

    __slots__ = ()


PARTLY, NOT_FOUND = Found(PARTIAL), Found(FAILED)


class Beginning(Protocol):
    """What can be found at a place of a text.

    first       the characters with which it may begin
    beginnings  the texts and white space of which one must stand there, before what else decides
    is_plain    whether nothing else does
    """

    @property
    def first(self) -> frozenset[str]: ...

    @property
    def beginnings(self) -> Sequence[Sequence[Part]]: ...

    @property
    def is_plain(self) -> bool: ...

    def match(self, text: str, at: int) -> Found:
        """How the text from `at` on begins with it."""
        ...


class CallEnding(Protocol):
    """What can follow the arguments of a call.

    is_spaced  whether white space may precede it
    """

    @property
    def is_spaced(self) -> bool: ...

    def match(self, text: str, at: int) -> Found:
        """How the text from `at` on begins with it."""
        ...


class Part(NamedTuple):
    """A part of a template, by `kind`:

    text   these characters
    space  white space, or none
    name   a function's name
    both   a function's name and a number, as in Kimi's ids of calls: `functions.f:0`, `f:0`, `functions_f_0`
    id     a call's id
    until  anything up to these characters, which are not part of it: a name if the template has none yet
    """

    kind: str
    text: str = ""


class Template:
    """Parts that follow each other.

    names  the names that a function may have; None for any
    """

    def __init__(self, parts: Sequence[Part], names: Collection[str] | None = None) -> None:
        self.parts, self._names = tuple(parts), names

    def __bool__(self) -> bool:
        return any(part.kind != "space" for part in self.parts)

    @property
    def first(self) -> frozenset[str]:
        """The characters with which it may begin."""
        if self.parts and self.parts[0].kind in ("name", "both", "id"):
            return _NAME_CHARACTERS
        return frozenset(next((part.text[0] for part in self.parts if part.text), ""))

    @property
    def beginnings(self) -> Sequence[Sequence[Part]]:
        """Its parts up to the first place for a name."""
        return [list(takewhile(lambda part: part.kind in ("text", "space"), self.parts))]

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but one text."""
        return len(self.parts) == 1 and self.parts[0].kind == "text"

    @property
    def is_spaced(self) -> bool:
        """Whether white space may precede it."""
        return self.parts[:1] == (Part("space"),)

    def then(self, other: Template) -> Template:
        """This template with another one after it."""
        space = [Part("space")] if self.parts and other.parts else []
        names = other._names if self._names is None else self._names
        return Template([*self.parts, *space, *other.parts], names)

    def match(self, text: str, at: int) -> Found:
        """How the text from `at` on begins with this template."""
        name = call_id = ""
        end = len(text)
        for kind, literal in self.parts:
            if kind == "text":
                if not text.startswith(literal, at):
                    is_partial = end - at < len(literal) and literal.startswith(text[at:])
                    return PARTLY if is_partial else NOT_FOUND
                at += len(literal)
            elif kind == "space":
                at = after_space(text, at)
            elif kind == "until":
                behind = text.find(literal, at, at + MAX_FREE_NAME + len(literal))
                if behind < 0:
                    return PARTLY if end - at <= MAX_FREE_NAME else NOT_FOUND
                if name:
                    call_id = text[at:behind]
                else:
                    name = text[at:behind]
                at = behind
            else:
                run = (_ID if kind == "id" else _NAME).match(text, at)
                if run is None:
                    return PARTLY if at == end else NOT_FOUND
                if run.end() == end and run.end() - at <= MAX_NAME:
                    return PARTLY
                at = run.end()
                if kind == "id":
                    call_id = run.group()
                    continue
                if name and name != run.group():
                    return NOT_FOUND
                name = run.group()
                if kind == "both":
                    name, call_id = _function_in(name), name
                if len(name) > MAX_NAME or (self._names is not None and name not in self._names):
                    return NOT_FOUND
        return Found(at, name, call_id)


def _function_in(call_id: str) -> str:
    """The function that an id of Kimi's names: "" for one that is only a number."""
    name = call_id.removeprefix("functions.").removeprefix("functions_")
    separators = ":_" if call_id.startswith("functions_") else ":"
    for separator in separators:
        before, _, number = name.rpartition(separator)
        if before and number.isdigit():
            return before
    return "" if name.isdigit() else name


def after_space(text: str, at: int) -> int:
    """Where the white space ends that a part `space` takes from a position on."""
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def literal(text: str, alphabet: MarkerAlphabet, is_json: bool = False) -> Template:
    """The template of a string. White space with a line break is optional, and any; in JSON, so is all white
    space around punctuation."""
    return Template(_joined(_parts(text, alphabet, is_json)))


def exact(text: str, alphabet: MarkerAlphabet) -> Template:
    """The template of a string with its white space as it is, and more of it beside marks within."""
    parts = [part for string, is_mark in split_marks(text) for part in _mark_parts(string, is_mark, alphabet)]
    return Template(_begun(_joined(parts)))


def call_template(
    text: str, alphabet: MarkerAlphabet, names: Collection[str] | None = None, is_json: bool = False
) -> Template:
    """The template of what begins something: `{name}` and `{id}` are places for those of a call."""
    parts: list[Part] = []
    for number, piece in enumerate(_PLACEHOLDERS.split(text)):
        if number % 2:
            parts.append(Part({"{name}": "name", "{id}": "id"}.get(piece, "both")))
        else:
            parts += _parts(piece, alphabet, is_json)
    joined = _begun(_joined(parts))
    if not any(part.text for part in joined):  # then its white space tells it from other words
        joined += exact(text.rpartition("}")[2], alphabet).parts
    return Template(joined, names)


def _parts(text: str, alphabet: MarkerAlphabet, is_json: bool) -> list[Part]:
    """The parts of a string. White space is free around marks."""
    parts: list[Part] = []
    for string, is_mark in split_marks(text):
        if is_mark:
            parts += _mark_parts(string, is_mark, alphabet)
        else:
            parts += _json_parts(string) if is_json else _text_parts(string)
    return parts


def _mark_parts(text: str, is_mark: bool, alphabet: MarkerAlphabet) -> list[Part]:
    """A mark with free white space around it; marks that stand within others have none."""
    part = Part("text", alphabet.encode(text))
    return [Part("space"), part, Part("space")] if is_mark and text[0] in "<[" else [part]


def _text_parts(text: str) -> list[Part]:
    return [Part("space") if "\n" in run else Part("text", run) for run in _RUNS.findall(text)]


def _json_parts(text: str) -> list[Part]:
    parts = []
    for piece in _PIECES.findall(text):
        if piece in "{}[],:":
            parts += [Part("space"), Part("text", piece), Part("space")]
        else:
            parts.append(Part("space") if piece.isspace() else Part("text", piece))
    return parts


def _begun(parts: list[Part]) -> list[Part]:
    """The parts without white space at the beginning."""
    return parts[1:] if parts[:1] == [Part("space")] else parts


def _joined(parts: Sequence[Part]) -> list[Part]:
    """The parts without empty ones and space at the end, and with neighbours of a kind made one."""
    joined: list[Part] = []
    for part in parts:
        if part == ("text", "") or (part.kind == "space" and joined and joined[-1].kind == "space"):
            continue
        if part.kind == "text" and joined and joined[-1].kind == "text":
            part = Part("text", joined.pop().text + part.text)
        joined.append(part)
    while joined and joined[-1].kind == "space":
        joined.pop()
    return joined
