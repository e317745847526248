"""Calls that are objects in JSON, with members in any order: `{"name": "f", "arguments": {}, "id": "1"}`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from .alphabet import SURROGATES
from .arguments.json_text import JSON_BEGINS
from .templates import (
    FAILED,
    MAX_GAP,
    NOT_FOUND,
    PARTIAL,
    PARTLY,
    Found,
    Part,
    Template,
    WrappedFound,
    after_space,
)
from .writing import json_value

MAX_HEAD = 2_048
"""Maximum length of what stands before the arguments, and of what stands behind them."""

_KINDS = {
    **dict.fromkeys(("name", "tool_name", "function"), "name"),
    **dict.fromkeys(("id", "tool_call_id"), "id"),
    **dict.fromkeys(("arguments", "parameters", "args"), "arguments"),
    **dict.fromkeys(("type", "index"), ""),
}
_S = rf"[ \t\r\n]{{0,{MAX_GAP}}}"
_CHARACTER = rf'(?:[^"\\\x00-\x1f{SURROGATES}]|\\[^{SURROGATES}])'
_KEY = re.compile(rf'{_S}"({_CHARACTER}{{0,64}})"{_S}:{_S}')
_KEY_BEGUN = re.compile(rf'{_S}(?:"({_CHARACTER}{{0,64}})(?:"{_S}(?::{_S})?)?)?\Z')
_SCALAR = re.compile(rf'("{_CHARACTER}{{0,256}}"|[-+.\w]{{1,32}}){_S}(?=[,}}])')
_SCALAR_BEGUN = re.compile(rf'(?:"{_CHARACTER}{{0,256}}(?:\\|"{_S})?|[-+.\w]{{0,32}}{_S})\Z')


def followed(found: Found, text: str, begins: Collection[str]) -> Found:
    """What was found, if one of some texts comes next, in which a blank is any white space."""
    if found.end < 0:
        return found
    ends = {_end_of(one, text, after_space(text, found.end)) for one in begins}
    return found if max(ends) >= 0 else PARTLY if PARTIAL in ends else NOT_FOUND


def _end_of(begin: str, text: str, at: int) -> int:
    for character in begin:
        if character == " ":
            at = after_space(text, at)
        elif at == len(text):
            return PARTIAL
        elif text[at] != character:
            return FAILED
        else:
            at += 1
    return at


class FollowedTemplate:
    """A template, and with what the arguments begin that follow it."""

    is_plain = False

    def __init__(self, template: Template, begins: Collection[str]) -> None:
        self._template, self._begins = template, begins
        self.first, self.beginnings = template.first, template.beginnings

    def match(self, text: str, at: int) -> Found:
        """How the text from `at` on begins with it."""
        return followed(self._template.match(text, at), text, self._begins)


class ObjectBegin:
    """What precedes the arguments of such a call. A name that comes behind them is not in a match.

    before   what stands before the object
    names    the names that a function may have; None for any
    is_sure  whether an object there is a call, so that it needs no arguments, nor its name before them
    """

    is_plain = False

    def __init__(self, before: Template, names: Collection[str] | None, is_sure: bool) -> None:
        self._before, self._names, self._is_sure = before, names, is_sure

    @property
    def first(self) -> frozenset[str]:
        """The characters with which it may begin."""
        return self._before.first or frozenset("{")

    @property
    def beginnings(self) -> Sequence[Sequence[Part]]:
        """Its parts up to the first member."""
        parts = list(self._before.beginnings[0])
        if len(parts) < len(self._before.parts):
            return [parts]
        return [[*parts, *([Part("space")] if parts else []), Part("text", "{")]]

    def match(self, text: str, at: int) -> Found:
        """How the text from `at` on begins with it."""
        head = self._before.match(text, at)
        if head.end < 0:
            return head
        at = after_space(text, head.end)
        if not text.startswith("{", at):
            return PARTLY if at == len(text) else NOT_FOUND
        found = self._members(text, at + 1)
        is_long = found.end > at + MAX_HEAD or (found == PARTLY and len(text) > at + MAX_HEAD)
        is_other = bool(head.name and found.name) and head.name != found.name
        return NOT_FOUND if is_long or is_other else found

    def _members(self, text: str, at: int) -> Found:
        name = call_id = ""
        found_as: type[Found] = Found
        while True:
            key = _KEY.match(text, at)
            if key is None:
                return self._unfinished(text, at)
            kind, at = _KINDS.get(key[1]), key.end()
            if kind == "arguments":
                is_call = name or self._is_sure
                return followed(found_as(at, name, call_id), text, JSON_BEGINS) if is_call else NOT_FOUND
            if key[1] == "function" and text.startswith("{", at):
                found_as, at = WrappedFound, at + 1
                continue
            scalar = None if kind is None else _SCALAR.match(text, at)
            if scalar is None:
                return PARTLY if kind is not None and _SCALAR_BEGUN.match(text, at) else NOT_FOUND
            value, at = _value(scalar[1]), scalar.end()
            if kind == "name":
                name = value
                if not name or (self._names is not None and name not in self._names):
                    return NOT_FOUND
            elif kind == "id":
                call_id = value
            if text[at] == "}":
                return found_as(at, name, call_id) if name and self._is_sure else NOT_FOUND
            at += 1

    def _unfinished(self, text: str, at: int) -> Found:
        key = _KEY_BEGUN.match(text, at)
        is_partial = key is not None and any(one.startswith(key[1] or "") for one in _KINDS)
        return PARTLY if is_partial else NOT_FOUND


class ObjectEnd:
    """What follows the arguments of such a call: other members, the ends of its objects, and more.

    depth  how many objects it ends
    """

    is_spaced = True

    def __init__(self, after: Template, depth: int) -> None:
        self._after, self._depth = after, depth

    def match(self, text: str, at: int) -> Found:
        """How the text from `at` on begins with it."""
        begin, name, call_id, left = at, "", "", self._depth
        while left:
            at = after_space(text, at)
            if at == len(text):
                return PARTLY if at - begin <= MAX_HEAD else NOT_FOUND
            if text[at] == "}":
                at, left = at + 1, left - 1
                continue
            key = _KEY.match(text, at + 1) if text[at] == "," else None
            scalar = _SCALAR.match(text, key.end()) if key is not None else None
            if key is None or scalar is None or at - begin > MAX_HEAD:
                return self._unfinished(text, at, key)
            kind, at = _KINDS.get(key[1]), scalar.end()
            name = _value(scalar[1]) if kind == "name" else name
            call_id = _value(scalar[1]) if kind == "id" else call_id
        return Found(self._after.match(text, at).end, name, call_id)

    def _unfinished(self, text: str, at: int, key: re.Match[str] | None) -> Found:
        if text[at] != "," or len(text) - at > MAX_HEAD:
            return NOT_FOUND
        begun = _KEY_BEGUN.match(text, at + 1) if key is None else _SCALAR_BEGUN.match(text, key.end())
        return PARTLY if begun else NOT_FOUND


def _value(scalar: str) -> str:
    """A name or an id as it is written: a string, or a number."""
    if not scalar.startswith('"'):
        return scalar
    try:
        value: Any = json_value(scalar)
    except ValueError:
        return ""
    return str(value)
