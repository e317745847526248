"""Patterns as small trees: what Python's own parser of regular expressions reads, without its details.

Flags, classes and case are resolved to sets of code points; every anchor becomes a lookaround
(`^` is "nothing stands before", `\\b` is one of two pairs), so that five kinds of nodes are left.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, TypeAlias

from ..errors import GrammarError, GrammarLimitError
from ..program import unicode
from ..program.expression import Expression
from ..program.unicode import Ranges

_FOLDER = "re._" if sys.version_info >= (3, 11) else "sre_"
_parser: Any = import_module(_FOLDER + ("parser" if sys.version_info >= (3, 11) else "parse"))
_names: Any = import_module(_FOLDER + "constants")

MAX_NESTING = 64
"""The deepest nesting of groups in a pattern."""
MAX_CLASSES = 128
"""The most different classes of characters in a pattern."""
MAX_WIDTH = 1 << 31
"""Counts from here on are the same as no limit."""


@dataclass(frozen=True, eq=False)
class Node:
    """A part of a pattern.

    shortest, longest  how many characters it can match; longest None is without end
    looks              whether a lookaround is in it
    lazy               whether a quantifier in it prefers fewer
    """

    shortest: int
    longest: int | None
    looks: bool
    lazy: bool


@dataclass(frozen=True, eq=False)
class Set(Node):
    """One character of a set."""

    ranges: Ranges

    @cached_property
    def expression(self) -> Expression:
        """The character in UTF-8."""
        return unicode.characters(self.ranges)


@dataclass(frozen=True, eq=False)
class Sequence(Node):
    """One after the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Choice(Node):
    """Any of the items; earlier ones are preferred."""

    items: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Repeat(Node):
    """The item, low to high times; high None is without end. `reluctant` prefers fewer."""

    item: Node
    low: int
    high: int | None
    reluctant: bool


@dataclass(frozen=True, eq=False)
class Look(Node):
    """Nothing, where the item matches (or `negative`: does not) what follows or what comes before."""

    item: Node
    ahead: bool
    negative: bool


def one_of(ranges: Ranges) -> Node:
    """A character of the set."""
    return Set(1, 1, False, False, ranges)


def sequence(items: Iterable[Node]) -> Node:
    """The items in a row."""
    flat: list[Node] = []
    for item in items:
        flat += item.items if isinstance(item, Sequence) else (item,)
    if len(flat) == 1:
        return flat[0]
    longest = [item.longest for item in flat]
    return Sequence(
        min(sum(item.shortest for item in flat), MAX_WIDTH),
        None if None in longest else sum(filter(None, longest)),
        any(item.looks for item in flat),
        any(item.lazy for item in flat),
        tuple(flat),
    )


def choice(items: Iterable[Node]) -> Node:
    """The first of the items that leads to a match."""
    of = tuple(items)
    if len(of) == 1:
        return of[0]
    longest = [item.longest for item in of]
    return Choice(
        min((item.shortest for item in of), default=0),
        None if None in longest else max(filter(None, longest), default=0),
        any(item.looks for item in of),
        any(item.lazy for item in of),
        of,
    )


def repeat(item: Node, low: int, high: int | None, reluctant: bool = False) -> Node:
    """The item, again and again."""
    longest = 0 if high == 0 or item.longest == 0 else None
    if longest is None and high is not None and item.longest is not None:
        longest = min(item.longest * high, MAX_WIDTH)
    shortest = min(item.shortest * low, MAX_WIDTH)
    lazy = item.lazy or (reluctant and low != high)
    return Repeat(shortest, longest, item.looks, lazy, item, low, high, reluctant)


def look(item: Node, ahead: bool, negative: bool) -> Node:
    """A lookaround."""
    return Look(0, 0, True, item.lazy, item, ahead, negative)


FAILURE = choice(())
ANY = one_of(unicode.EVERY)
NOT_NEWLINE = one_of(unicode.invert(unicode.NEWLINE))

TEXT_BEGIN = look(ANY, False, True)
TEXT_END = look(ANY, True, True)
LINE_BEGIN = look(NOT_NEWLINE, False, True)
LINE_END = look(NOT_NEWLINE, True, True)
LAST_LINE_END = look(choice((NOT_NEWLINE, sequence((one_of(unicode.NEWLINE), ANY)))), True, True)
"""Python's `$`: the end, or before a line feed at the end."""


@lru_cache(maxsize=4)
def _boundary(word: Ranges, negative: bool, needs_text: bool) -> Node:
    """`\\b`, or `\\B`; `needs_text`: it does not match in an empty text."""
    letter = one_of(word)
    pairs = [
        sequence((look(letter, False, not before), look(letter, True, before != negative)))
        for before in (True, False)
    ]
    if not needs_text:
        return choice(pairs)
    inside = choice((look(ANY, False, False), look(ANY, True, False)))
    return sequence((choice(pairs), inside))


@lru_cache(maxsize=1)
def _inner_boundary_needs_text() -> bool:
    return re.search(r"\B", "") is None  # so it was before Python 3.14


@lru_cache(maxsize=4096)
def _literal(code: int, flags: int) -> Node:
    of: Ranges = ((code, code),)
    return one_of(unicode.fold(of, bool(flags & re.ASCII)) if flags & re.IGNORECASE else of)


Parsed: TypeAlias = Any  # the parser's list of (operator, argument)


def parse(pattern: str, flags: int, ecma: bool, sets: Mapping[int, Ranges]) -> Node:
    """The tree of a pattern in Python's syntax.

    ecma  classes, `.`, `$` and lookbehind are those of ECMAScript
    sets  code points that stand for sets
    Raises re.error, GrammarError for what no automaton can match, GrammarLimitError.
    """
    try:
        parsed = _parser.parse(pattern, flags)
        return _Reader(ecma, sets).sequence(parsed, parsed.state.flags, 0)
    except RecursionError:
        raise GrammarLimitError(f"a pattern is nested more than {MAX_NESTING} deep") from None
    except OverflowError:
        raise GrammarLimitError("a count in a pattern is too large") from None


class _Reader:
    """Makes nodes of what the parser read."""

    def __init__(self, ecma: bool, sets: Mapping[int, Ranges]) -> None:
        self.ecma = ecma
        self.sets = sets
        self._classes: dict[tuple[tuple[Any, ...], int], Node] = {}

    def sequence(self, parsed: Parsed, flags: int, depth: int) -> Node:
        if depth > MAX_NESTING:
            raise GrammarLimitError(f"a pattern is nested more than {MAX_NESTING} deep")
        return sequence(self.item(str(name), value, flags, depth) for name, value in parsed)

    def item(self, name: str, value: Any, flags: int, depth: int) -> Node:
        if name == "LITERAL":
            of = self.sets.get(value)
            return _literal(value, flags) if of is None else one_of(of)
        if name == "NOT_LITERAL":
            return self._class((("NEGATE", None), ("LITERAL", value)), flags)
        if name == "IN":
            return self._class(tuple(value), flags)
        if name == "ANY":
            return self._any(flags)
        if name == "AT":
            return self._anchor(str(value), flags)
        if name == "SUBPATTERN":
            _, added, removed, inner = value
            if added & (re.ASCII | re.UNICODE):
                flags &= ~(re.ASCII | re.UNICODE)
            return self.sequence(inner, (flags | added) & ~removed, depth + 1)
        if name == "BRANCH":
            return choice([self.sequence(one, flags, depth + 1) for one in value[1]])
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, inner = value
            item = self.sequence(inner, flags, depth + 1)
            limit = None if high == _names.MAXREPEAT or high >= MAX_WIDTH else int(high)
            if low >= MAX_WIDTH:
                raise GrammarLimitError(f"a count in a pattern is over {MAX_WIDTH}")
            return repeat(item, low, limit, name == "MIN_REPEAT")
        if name in ("ASSERT", "ASSERT_NOT"):
            direction, inner = value
            return self._look(self.sequence(inner, flags, depth + 1), direction > 0, name == "ASSERT_NOT")
        if name == "FAILURE":
            return FAILURE
        raise GrammarError(f"{_REFUSED.get(name, name)} cannot be matched token by token")

    def _look(self, item: Node, ahead: bool, negative: bool) -> Node:
        if not ahead and not self.ecma and item.shortest != item.longest:
            raise GrammarError("look-behind requires fixed-width pattern")
        return look(item, ahead, negative)

    def _any(self, flags: int) -> Node:
        if flags & re.DOTALL:
            return ANY
        return one_of(unicode.invert(unicode.ECMA_LINE_END)) if self.ecma else NOT_NEWLINE

    def _anchor(self, name: str, flags: int) -> Node:
        if name == "AT_BEGINNING":
            return LINE_BEGIN if flags & re.MULTILINE else TEXT_BEGIN
        if name == "AT_END":
            if flags & re.MULTILINE:
                return LINE_END
            return TEXT_END if self.ecma else LAST_LINE_END
        if name == "AT_BEGINNING_STRING":
            return TEXT_BEGIN
        if name == "AT_END_STRING":
            return TEXT_END
        negative = name == "AT_NON_BOUNDARY"
        needs_text = negative and not self.ecma and _inner_boundary_needs_text()
        return _boundary(unicode.word(self.ecma or bool(flags & re.ASCII)), negative, needs_text)

    def _class(self, members: tuple[tuple[Any, Any], ...], flags: int) -> Node:
        known = self._classes.get((members, flags))
        if known is None:
            if len(self._classes) == MAX_CLASSES:
                raise GrammarLimitError(f"a pattern has more than {MAX_CLASSES} different classes")
            known = self._classes[members, flags] = one_of(self._members(members, flags))
        return known

    def _members(self, members: tuple[tuple[Any, Any], ...], flags: int) -> Ranges:
        found: list[tuple[int, int]] = []
        negative = False
        for name, value in members:
            if str(name) == "NEGATE":
                negative = True
            else:
                found += self._member(str(name), value, flags)
        of = unicode.ranges(found)
        return unicode.invert(of) if negative else of

    def _member(self, name: str, value: Any, flags: int) -> Ranges:
        if name == "CATEGORY":
            return _category(str(value), bool(flags & re.ASCII))
        of = ((value, value),) if name == "LITERAL" else (value,)
        if any(first <= code <= last for code in self.sets for first, last in of):
            if name == "LITERAL":
                return self.sets[value]
            raise GrammarError("a class of characters cannot be an end of a range")
        return unicode.fold(of, bool(flags & re.ASCII)) if flags & re.IGNORECASE else of


_REFUSED = {
    "GROUPREF": "a backreference",
    "GROUPREF_EXISTS": "a condition on a group",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive quantifier",
}


def _category(name: str, ascii_only: bool) -> Ranges:
    kind = name.rpartition("_")[2]
    of = {"DIGIT": unicode.digit, "WORD": unicode.word, "SPACE": unicode.space}[kind](ascii_only)
    return unicode.invert(of) if "_NOT_" in name else of
