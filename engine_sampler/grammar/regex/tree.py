"""Patterns as small trees: the result of Python's own parser of regular expressions, without its details.

Flags, classes and case are resolved to sets of code points. Every anchor becomes a lookaround (`^` is
"no character precedes", `\\b` is one of two pairs), so that five kinds of nodes remain.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeAlias

from ...base.cached import cached_property
from ..errors import GrammarError, GrammarLimitError
from ..program import unicode
from ..program.expression import Expression
from ..program.unicode import Ranges
from ..work import spend
from .prefixes import OTHER, Piece, with_shared_prefixes

_FOLDER = "re._" if sys.version_info >= (3, 11) else "sre_"
_parser: Any = import_module(_FOLDER + ("parser" if sys.version_info >= (3, 11) else "parse"))
_names: Any = import_module(_FOLDER + "constants")

MAX_NESTING = 64
"""The deepest nesting of groups in a pattern."""
MAX_CLASSES = 128
"""The most distinct classes of characters in a pattern."""
_MIN_FACTORED = 9
"""Choices of fewer options stay as they are."""
_SEQUENCE_STEPS = 3
"""The steps for a sequence, beside one for each of its parts."""
MAX_WIDTH = 1 << 31
"""Upper bounds of this size or more mean no bound."""


@dataclass(eq=False)
class Node:
    """A part of a pattern. It never changes; to enforce that would treble the time that it takes to make one.

    shortest, longest  the least and the greatest number of characters that it matches; longest None: no bound
    has_lookaround     whether it contains a lookaround
    lazy               whether it contains a quantifier that prefers fewer repetitions
    """

    shortest: int
    longest: int | None
    has_lookaround: bool
    lazy: bool


@dataclass(eq=False)
class Set(Node):
    """One character of a set."""

    ranges: Ranges

    @cached_property
    def expression(self) -> Expression:
        """The character in UTF-8."""
        return unicode.characters(self.ranges)


@dataclass(eq=False)
class Sequence(Node):
    """The items, one after the other."""

    items: tuple[Node, ...]


@dataclass(eq=False)
class Choice(Node):
    """One of the items; earlier ones are preferred."""

    items: tuple[Node, ...]


@dataclass(eq=False)
class Repeat(Node):
    """The item, low to high times; high None: no bound. `reluctant` prefers fewer."""

    item: Node
    low: int
    high: int | None
    reluctant: bool


@dataclass(eq=False)
class Lookaround(Node):
    """The empty text, where the item matches (`negative`: does not match) the text after or before it."""

    item: Node
    ahead: bool
    negative: bool


def one_of(ranges: Ranges) -> Node:
    """One character of the set."""
    return Set(1, 1, False, False, ranges)


def sequence(items: Iterable[Node]) -> Node:
    """The items in a row."""
    flat: list[Node] = []
    for item in items:
        flat += item.items if isinstance(item, Sequence) else (item,)
    if len(flat) == 1:
        return flat[0]
    shortest, longest, has_lookaround, lazy = 0, 0, False, False
    is_bounded = True
    for item in flat:
        shortest += item.shortest
        if item.longest is None:
            is_bounded = False
        else:
            longest += item.longest
        has_lookaround = has_lookaround or item.has_lookaround
        lazy = lazy or item.lazy
    return Sequence(
        min(shortest, MAX_WIDTH), longest if is_bounded else None, has_lookaround, lazy, tuple(flat)
    )


def choice(items: Iterable[Node]) -> Node:
    """The first of the items that leads to a match."""
    options = tuple(items)
    if len(options) == 1:
        return options[0]
    longest = [item.longest for item in options]
    return Choice(
        min((item.shortest for item in options), default=0),
        None if None in longest else max(filter(None, longest), default=0),
        any(item.has_lookaround for item in options),
        any(item.lazy for item in options),
        options,
    )


def without_hidden(node: Node) -> Node:
    """The node at the end of a pattern, without the options that an empty one hides, which is preferred."""
    if isinstance(node, Sequence) and node.items:
        last = without_hidden(node.items[-1])
        return node if last is node.items[-1] else sequence((*node.items[:-1], last))
    if not isinstance(node, Choice):
        return node
    empty = next((number for number, option in enumerate(node.items) if _is_empty(option)), len(node.items))
    options = [without_hidden(option) for option in node.items[: empty + 1]]
    return node if options == list(node.items) else choice(options)


def _is_empty(node: Node) -> bool:
    return isinstance(node, Sequence) and not node.items


def repeat(item: Node, low: int, high: int | None, reluctant: bool = False) -> Node:
    """The item, low to high times."""
    longest = 0 if high == 0 or item.longest == 0 else None
    if longest is None and high is not None and item.longest is not None:
        longest = min(item.longest * high, MAX_WIDTH)
    shortest = min(item.shortest * low, MAX_WIDTH)
    lazy = item.lazy or (reluctant and low != high)
    return Repeat(shortest, longest, item.has_lookaround, lazy, item, low, high, reluctant)


def lookaround(item: Node, ahead: bool, negative: bool) -> Node:
    """A lookaround."""
    return Lookaround(0, 0, True, item.lazy, item, ahead, negative)


FAILURE = choice(())
ANY = one_of(unicode.EVERY)
NOT_NEWLINE = one_of(unicode.invert(unicode.NEWLINE))

TEXT_BEGIN = lookaround(ANY, False, True)
TEXT_END = lookaround(ANY, True, True)
LINE_BEGIN = lookaround(NOT_NEWLINE, False, True)
LINE_END = lookaround(NOT_NEWLINE, True, True)
LAST_LINE_END = lookaround(choice((NOT_NEWLINE, sequence((one_of(unicode.NEWLINE), ANY)))), True, True)
"""Python's `$`: at the end, or before a line feed at the end."""


@lru_cache(maxsize=4)
def _boundary(word: Ranges, negative: bool, needs_text: bool) -> Node:
    """`\\b` or, if `negative`, `\\B`; with `needs_text` it does not match the empty text."""
    letter = one_of(word)
    pairs = [
        sequence((lookaround(letter, False, not before), lookaround(letter, True, before != negative)))
        for before in (True, False)
    ]
    if not needs_text:
        return choice(pairs)
    in_text = choice((lookaround(ANY, False, False), lookaround(ANY, True, False)))
    return sequence((choice(pairs), in_text))


@lru_cache(maxsize=1)
def _inner_boundary_needs_text() -> bool:
    return re.search(r"\B", "") is None  # True before Python 3.14


@lru_cache(maxsize=4096)
def _literal(code: int, flags: int) -> Node:
    ranges: Ranges = ((code, code),)
    return one_of(unicode.fold(ranges, bool(flags & re.ASCII)) if flags & re.IGNORECASE else ranges)


@lru_cache(maxsize=4096)
def _first_case(code: int, flags: int) -> int:
    ranges: Ranges = ((code, code),)
    return unicode.fold(ranges, bool(flags & re.ASCII))[0][0]


Parsed: TypeAlias = Any  # the parser's list of (operator, argument)


def parse(pattern: str, flags: int, ecma: bool, sets: Mapping[int, Ranges]) -> Node:
    """The tree of a pattern in Python's syntax.

    ecma  classes, `.`, `$` and lookbehinds have their meaning in ECMAScript
    sets  code points that stand for sets

    Raises re.error, GrammarError for a construct that no automaton can match, and GrammarLimitError.
    """
    try:
        parsed = _parser.parse(pattern, flags)
        return _Reader(ecma, sets).sequence(parsed, parsed.state.flags, 0)
    except RecursionError:
        raise GrammarLimitError(f"a pattern is nested more than {MAX_NESTING} deep") from None
    except OverflowError:
        raise GrammarLimitError("a count in a pattern is too large") from None


class _Reader:
    """Builds nodes from the parser's result."""

    def __init__(self, ecma: bool, sets: Mapping[int, Ranges]) -> None:
        self.ecma = ecma
        self.sets = sets
        self._classes: dict[tuple[tuple[Any, ...], int], Node] = {}
        self._anchors: dict[tuple[str, int], Node] = {}
        self._repeats: dict[tuple[Node, int, int | None, bool], Node] = {}

    def sequence(self, parsed: Parsed, flags: int, depth: int) -> Node:
        if depth > MAX_NESTING:
            raise GrammarLimitError(f"a pattern is nested more than {MAX_NESTING} deep")
        spend(_SEQUENCE_STEPS + len(parsed))
        return sequence([self.item(str(name), value, flags, depth) for name, value in parsed])

    def item(self, name: str, value: Any, flags: int, depth: int) -> Node:
        if name == "LITERAL":
            ranges = self.sets.get(value)
            return _literal(value, flags) if ranges is None else one_of(ranges)
        if name == "NOT_LITERAL":
            return self._class((("NEGATE", None), ("LITERAL", value)), flags)
        if name == "IN":
            return self._class(tuple(value), flags)
        if name == "ANY":
            return self._any(flags)
        if name == "AT":
            anchor = str(value), flags
            if anchor not in self._anchors:
                self._anchors[anchor] = self._anchor(*anchor)
            return self._anchors[anchor]
        if name == "SUBPATTERN":
            _, added, removed, inner = value
            if added & (re.ASCII | re.UNICODE):
                flags &= ~(re.ASCII | re.UNICODE)
            return self.sequence(inner, (flags | added) & ~removed, depth + 1)
        if name == "BRANCH":
            return self._choice([one.data for one in value[1]], flags, depth + 1)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, inner = value
            item = self.sequence(inner, flags, depth + 1)
            limit = None if high == _names.MAXREPEAT or high >= MAX_WIDTH else int(high)
            if low >= MAX_WIDTH:
                raise GrammarLimitError(f"a count in a pattern is over {MAX_WIDTH}")
            key = item, low, limit, name == "MIN_REPEAT"
            if key not in self._repeats:
                self._repeats[key] = repeat(*key)
            return self._repeats[key]
        if name in ("ASSERT", "ASSERT_NOT"):
            direction, inner = value
            return self._lookaround(
                self.sequence(inner, flags, depth + 1), direction > 0, name == "ASSERT_NOT"
            )
        if name == "FAILURE":
            return FAILURE
        raise GrammarError(f"{_REFUSED.get(name, name)} cannot be matched token by token")

    def _choice(self, options: list[Parsed], flags: int, depth: int) -> Node:
        """One of the options; the first characters that options of a long list share are written once."""
        if len(options) < _MIN_FACTORED:
            return choice([self.sequence(one, flags, depth) for one in options])
        pieces = with_shared_prefixes([self._keys(one, flags) for one in options])
        return self._one_of(pieces, options, flags, depth)

    def _one_of(self, pieces: list[Piece], options: list[Parsed], flags: int, depth: int) -> Node:
        found = []
        for option, start, end, rests in pieces:
            node = self.sequence(options[option][start:end], flags, depth)
            found.append(
                node if rests is None else sequence((node, self._one_of(rests, options, flags, depth)))
            )
        return choice(found)

    def _keys(self, parsed: Parsed, flags: int) -> list[int]:
        """For each part the first of the characters that it matches if it is a literal."""
        literal = _names.LITERAL
        codes = [value if name is literal and value not in self.sets else OTHER for name, value in parsed]
        if not flags & re.IGNORECASE:
            return codes
        return [OTHER if code == OTHER else _first_case(code, flags) for code in codes]

    def _lookaround(self, item: Node, ahead: bool, negative: bool) -> Node:
        if not ahead and not self.ecma and item.shortest != item.longest:
            raise GrammarError("a lookbehind requires a fixed-width pattern")
        return lookaround(item, ahead, negative)

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
                raise GrammarLimitError(f"a pattern has more than {MAX_CLASSES} distinct classes")
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
        ranges = unicode.ranges(found)
        return unicode.invert(ranges) if negative else ranges

    def _member(self, name: str, value: Any, flags: int) -> Ranges:
        if name == "CATEGORY":
            return _category(str(value), bool(flags & re.ASCII))
        ranges = ((value, value),) if name == "LITERAL" else (value,)
        if any(first <= code <= last for code in self.sets for first, last in ranges):
            if name == "LITERAL":
                return self.sets[value]
            raise GrammarError("a class of characters cannot be an end of a range")
        return unicode.fold(ranges, bool(flags & re.ASCII)) if flags & re.IGNORECASE else ranges


_REFUSED = {
    "GROUPREF": "a backreference",
    "GROUPREF_EXISTS": "a condition on a group",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive quantifier",
}


def _category(name: str, ascii_only: bool) -> Ranges:
    kind = name.rpartition("_")[2]
    ranges = {"DIGIT": unicode.digit, "WORD": unicode.word, "SPACE": unicode.space}[kind](ascii_only)
    return unicode.invert(ranges) if "_NOT_" in name else ranges
