r"""Escapes and classes of characters in Python's syntax of regular expressions."""

from __future__ import annotations

import unicodedata
from typing import NoReturn

from ...base.errors import quoted
from ..program.unicode import LAST
from ..work import spend
from .items import AT, CATEGORY, CLASS, LITERAL, NEGATED, NOT_LITERAL, RANGE, Item, malformed, unmatchable

_CATEGORIES = "dDsSwW"
_ANCHORS = "AbBZz"
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}
_OCTAL, _DECIMAL, _HEX = "01234567", "0123456789", "0123456789abcdefABCDEF"
_LAST_OCTAL = 0o377
_LONGEST_NAME = 256
"""More characters than any name of a character has."""
_AT_A_TIME = 64
"""The characters of a class after which they are counted."""


def read_escape(text: str, at: int) -> tuple[Item, int]:
    """What the escape at `at`, outside of a class, stands for, and the position after it."""
    letter = text[at + 1 : at + 2]
    if letter and letter in _CATEGORIES:
        return (CLASS, ((CATEGORY, letter),)), at + 2
    if letter and letter in _ANCHORS:
        return (AT, letter), at + 2
    if letter and letter in _DECIMAL:
        digits = _digits(text, at + 1, 3, _OCTAL)
        if letter == "0" or len(digits) == 3:
            return _octal(text, at, digits)
        raise unmatchable("a backreference", at)
    code, end = _character(text, at)
    return (LITERAL, code), end


def read_class(text: str, start: int) -> tuple[Item, int]:
    """The class of characters that begins at `start`, and the position after it."""
    at = start + 1
    is_negated = text.startswith("^", at)
    at += is_negated
    counted = start
    members: dict[Item, None] = {}
    while not text.startswith("]", at) or not members:
        if at - counted >= _AT_A_TIME:
            spend(at - counted)
            counted = at
        here = at
        member, at = _member(text, at, start)
        if not text.startswith("-", at):
            members[member] = None
        elif text.startswith("]", at + 1):
            members |= {member: None, (LITERAL, ord("-")): None}
            at += 1
        else:
            last, at = _member(text, at + 1, start)
            if member[0] != LITERAL or last[0] != LITERAL or last[1] < member[1]:
                raise malformed(f"bad character range {text[here:at]}", here)
            members[RANGE, (member[1], last[1])] = None
    spend(at - counted)
    return _class_of(tuple(members), is_negated), at + 1


def _class_of(members: tuple[Item, ...], is_negated: bool) -> Item:
    if len(members) == 1 and members[0][0] == LITERAL:
        return (NOT_LITERAL if is_negated else LITERAL), members[0][1]
    return CLASS, ((NEGATED, None), *members) if is_negated else members


def _member(text: str, at: int, start: int) -> tuple[Item, int]:
    """The character or category at `at` in the class that begins at `start`."""
    if at >= len(text):
        raise malformed("unterminated character set", start)
    if text[at] != "\\":
        return (LITERAL, ord(text[at])), at + 1
    letter = text[at + 1 : at + 2]
    if letter and letter in _CATEGORIES:
        return (CATEGORY, letter), at + 2
    if letter == "b":
        return (LITERAL, 8), at + 2
    if letter and letter in _OCTAL:
        return _octal(text, at, _digits(text, at + 1, 3, _OCTAL))
    code, end = _character(text, at)
    return (LITERAL, code), end


def _character(text: str, at: int) -> tuple[int, int]:
    """The character that an escape stands for in any place, and the position after it."""
    letter = text[at + 1 : at + 2]
    if letter in _CONTROLS:
        return _CONTROLS[letter], at + 2
    if letter in _HEX_LENGTHS:
        digits = _digits(text, at + 2, _HEX_LENGTHS[letter], _HEX)
        end = at + 2 + len(digits)
        if len(digits) < _HEX_LENGTHS[letter]:
            raise malformed(f"incomplete escape {text[at:end]}", at)
        code = int(digits, 16)
        if code > LAST:
            _bad_escape(text[at:end], at)
        return code, end
    if letter == "N":
        return _named(text, at)
    if not letter or (letter.isascii() and letter.isalnum()):
        _bad_escape(f"\\{letter}" if letter else "(end of pattern)", at)
    return ord(letter), at + 2


def _bad_escape(escape: str, at: int) -> NoReturn:
    raise malformed(f"bad escape {escape}", at)


def _named(text: str, at: int) -> tuple[int, int]:
    r"""The character of `\N{NAME}`."""
    end = text.find("}", at, at + _LONGEST_NAME)
    if not text.startswith("{", at + 2) or end < 0:
        raise malformed(r"\N needs the name of a character in braces", at)
    name = text[at + 3 : end]
    try:
        return ord(unicodedata.lookup(name)), end + 1
    except (KeyError, TypeError):
        raise malformed(f"undefined character name {quoted(name)}", at) from None


def _octal(text: str, at: int, digits: str) -> tuple[Item, int]:
    end = at + 1 + len(digits)
    code = int(digits, 8)
    if code > _LAST_OCTAL:
        raise malformed(f"octal escape value {text[at:end]} outside of range 0-0o377", at)
    return (LITERAL, code), end


def _digits(text: str, at: int, most: int, digits: str) -> str:
    """The digits at `at`, as many as there are up to `most`."""
    end = at
    while end < at + most and end < len(text) and text[end] in digits:
        end += 1
    return text[at:end]
