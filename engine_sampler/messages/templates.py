"""Strings of a definition, with places for names in them, as they are found in a growing text."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import takewhile
from string import ascii_letters, digits
from typing import NamedTuple

from ..grammar.structural_tag.marks import split_marks
from .alphabet import MarkerAlphabet

PARTIAL, FAILED = -1, -2
"""In place of where a match ends: more text may make it one; or none does."""

MAX_NAME = 256
MAX_FREE_NAME = 1024
"""Maximum length of the name of a parameter."""

MAX_MARK = 4_096
"""Maximum length of a mark that a client writes: as much is held back where it might begin."""

MAX_GAP = 64
"""Maximum length of the white space within a beginning or an end."""

_SPACE = re.compile(rf"[ \t\r\n]{{0,{MAX_GAP}}}")
_NAME = re.compile(rf"[\w.:/-]{{1,{MAX_NAME + 1}}}")
_NAME_CHARACTERS = frozenset(f"{ascii_letters}{digits}_.:/-")
"""With which the name of a function is found where an answer may begin with one."""
_ID = re.compile(rf"[\w.:/-]{{0,{MAX_NAME + 1}}}")
_PIECES = re.compile(r"\s+|[{}\[\],:]|[^\s{}\[\],:]+")
_RUNS = re.compile(r"\s+|\S+")
_PLACEHOLDERS = re.compile(r"(\{name\}:\{id\}|\{name\}|\{id\})")


class Found(NamedTuple):
    """Where a match ends, or PARTIAL or FAILED, and the names in it."""

    end: int
    name: str = ""
    id: str = ""


_PARTIAL, _FAILED = Found(PARTIAL), Found(FAILED)


class Part(NamedTuple):
    """A part of a template, by `kind`:

    text   these characters
    space  white space, or none
    name   a function's name
    both   a function's name, a colon, and a call's id
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
                    return _PARTIAL if is_partial else _FAILED
                at += len(literal)
            elif kind == "space":
                at = after_space(text, at)
            elif kind == "until":
                behind = text.find(literal, at, at + MAX_FREE_NAME + len(literal))
                if behind < 0:
                    return _PARTIAL if end - at <= MAX_FREE_NAME else _FAILED
                if name:
                    call_id = text[at:behind]
                else:
                    name = text[at:behind]
                at = behind
            else:
                run = (_ID if kind == "id" else _NAME).match(text, at)
                if run is None:
                    return _PARTIAL if at == end else _FAILED
                if run.end() == end and run.end() - at <= MAX_NAME:
                    return _PARTIAL
                at = run.end()
                if kind == "id":
                    call_id = run.group()
                    continue
                name = run.group()
                if kind == "both":  # of Kimi, whose ids are these words
                    name, call_id = name.rpartition(":")[0], f"functions.{name}"
                if len(name) > MAX_NAME or (self._names is not None and name not in self._names):
                    return _FAILED
        return Found(at, name, call_id)


def after_space(text: str, at: int) -> int:
    """Where the white space ends that a part `space` takes from a position on."""
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def literal(text: str, alphabet: MarkerAlphabet, is_json: bool = False) -> Template:
    """The template of a string. White space with a line break is optional, and any; in JSON, so is all white
    space around punctuation."""
    return Template(_joined(_parts(text, alphabet, is_json)))


def exact(text: str, alphabet: MarkerAlphabet) -> Template:
    """The template of a string, with its white space as it is."""
    return Template([Part("text", alphabet.encode(text))])


def call_template(
    text: str, alphabet: MarkerAlphabet, names: Collection[str] | None, is_json: bool
) -> Template:
    """The template of what precedes a call's arguments: `{name}` and `{id}` are places for those."""
    parts: list[Part] = []
    kinds = {"{name}": "name", "{id}": "id", "{name}:{id}": "both"}
    for piece in _PLACEHOLDERS.split(text):
        if piece in kinds:
            parts.append(Part(kinds[piece]))
        else:
            parts += _parts(piece, alphabet, is_json)
    joined = _joined(parts)
    if not any(part.text for part in joined):  # then its white space tells it from other words
        joined += exact(text.rpartition("}")[2], alphabet).parts
    return Template(joined, names)


def _parts(text: str, alphabet: MarkerAlphabet, is_json: bool) -> list[Part]:
    parts: list[Part] = []
    for string, is_mark in split_marks(text):
        if is_mark:
            parts.append(Part("text", alphabet.encode(string)))
        else:
            parts += _json_parts(string) if is_json else _text_parts(string)
    return parts


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
