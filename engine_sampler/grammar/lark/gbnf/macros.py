"""What the macros of xgrammar's EBNF mean, as xgrammar prints them.

Regex("[a-z]+")                  the texts that the whole pattern matches, in ECMAScript's syntax, else in
                                 Python's; `.` is any character, `(?i)` at its beginning ignores the
                                     case of ASCII letters. Look-aheads and anchors hold; xgrammar drops them
Regex("[a-z]+", json_string=true)  those of them that JSON's strings hold as they are
Substring("ab", "c")             any number of these texts that follow each other in the list
TagDispatch(("<f", rule), ..., loop_after_dispatch=true, excludes=("x"))
                                 text, and behind each trigger what its rule matches; none of `excludes`
Token(3, 4) ExcludeToken(5)      one of these tokens; any token but these
TokenTagDispatch((3, rule), ...) as TagDispatch, with tokens for triggers and for text
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ...errors import GrammarError, GrammarLimitError
from ...program.expression import ALL_BYTES, Expression, both, byte_class, literal, repeat
from ...program.free_text import free_text, overlap_free, text_until, utf8
from ...regex.pattern import pattern_expression
from ..extensions.substring import substring_expression

MACROS = ("TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken", "Regex", "Substring")

_IGNORE_CASE = "(?i)"
_OPTIONS = {"Dispatch": ("loop_after_dispatch", "excludes"), "Regex": ("json_string",)}
"""The arguments with names, by how the names of macros end."""

_PLAIN_IN_JSON = byte_class(ALL_BYTES & ~((1 << 32) - 1) & ~(1 << 0x22) & ~(1 << 0x5C))


class RuleName(NamedTuple):
    """The name of a rule among arguments, and where it stands."""

    name: str
    at: int


class Macro(NamedTuple):
    """A macro as kinds of terminals and their values (see `Placeholder`), and rules.

    ways   terminals, each with the rule that follows it
    other  what may stand alone, and behind the last way
    loops  whether the ways may follow each other
    apart  whether `other` stands in front of each way as well: else that is part of its terminal
    """

    ways: list[tuple[tuple[str, Any], RuleName | None]]
    other: tuple[str, Any] | None = None
    loops: bool = False
    apart: bool = False


def read_macro(name: str, arguments: list[Any], options: dict[str, Any]) -> Macro:
    """The meaning of a macro.

    arguments  those without a name: texts, numbers, `RuleName`s and lists of these
    options    those with a name

    Raises GrammarError without a place.
    """
    known = next((options for end, options in _OPTIONS.items() if name.endswith(end)), ())
    if unknown := [key for key in options if key not in known]:
        raise GrammarError(f"{name} has no argument {unknown[0]}")
    if name == "Regex":
        _check(name, arguments, str, "one text", len(arguments) == 1)
        plain = _truth(options, "json_string", False)
        found = _pattern(arguments[0])
        return Macro([(("expression", both(found, repeat(_PLAIN_IN_JSON)) if plain else found), None)])
    if name == "Substring":
        _check(name, arguments, str, "texts", True)
        return Macro([(("expression", substring_expression({"substring_chunks": arguments})), None)])
    if name in ("Token", "ExcludeToken"):
        _check(name, arguments, int, "ids of tokens", bool(arguments))
        ids = tuple(sorted(set(arguments)))
        return Macro([(("ids" if name == "Token" else "other", ids), None)])
    loops = _truth(options, "loop_after_dispatch", True)
    excludes = options.get("excludes", [])
    excludes = excludes if isinstance(excludes, list) else [excludes]
    kind: type = str if name == "TagDispatch" else int
    what = "texts" if kind is str else "ids of tokens"
    _check(f"excludes of {name}", excludes, kind, what, "" not in excludes)
    for pair in arguments:
        is_pair = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], RuleName)
        if not is_pair or not isinstance(pair[0], kind) or pair[0] == "":
            raise GrammarError(f"{name} takes pairs of a trigger and the name of a rule")
    if kind is int:
        return _token_dispatch(arguments, excludes, loops)
    return _dispatch(arguments, excludes, loops)


def _pattern(text: str) -> Expression:
    flags = re.S
    if text.startswith(_IGNORE_CASE):
        text, flags = text[len(_IGNORE_CASE) :], flags | re.I | re.A
    try:
        return pattern_expression(text, flags=flags, dialect="ecma")
    except GrammarLimitError:
        raise
    except GrammarError:
        return pattern_expression(text, flags=flags)


def _truth(options: dict[str, Any], name: str, default: bool) -> bool:
    found = options.get(name, default)
    if not isinstance(found, bool):
        raise GrammarError(f"{name} must be true or false")
    return found


def _check(name: str, given: list[Any], kind: type, what: str, holds: bool) -> None:
    if not holds or any(isinstance(one, bool) or not isinstance(one, kind) for one in given):
        raise GrammarError(f"{name} takes {what}")


def _dispatch(pairs: list[Any], excludes: list[str], loops: bool) -> Macro:
    triggers = frozenset(trigger for trigger, _ in pairs)
    watched = triggers | frozenset(excludes)
    apart = overlap_free(watched)
    ways = []
    for trigger, rule in pairs:
        if not any(one in trigger for one in excludes):
            others = watched - {trigger}
            text = literal(utf8(trigger)) if apart else text_until(frozenset((trigger,)), others)
            ways.append((("expression", text), rule))
    return Macro(ways, ("expression", free_text(watched)), loops, apart)


def _token_dispatch(pairs: list[Any], excludes: list[int], loops: bool) -> Macro:
    watched = tuple(sorted({*(token for token, _ in pairs), *excludes}))
    ways = [(("ids", (token,)), rule) for token, rule in pairs if token not in excludes]
    return Macro(ways, ("other", watched), loops, apart=True)
